"""Unpack the libraries of a wheel after checking its hash, and verify stored ones."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import HashMismatch, InvalidWheel, os_reason
from wheelfit_runtime.libraries.files import make_folder, new_file, write_fields
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from wheelfit_runtime.libraries.store import StoredWheel
    from wheelfit_runtime.libraries.wheels import ListedWheel

_CHUNK_SIZE = 1 << 20
_LIBRARY = pattern(r"[^/]+\.so(?:\.[0-9]+)*")
# NVIDIA ships a second build of some libraries, which is as large and is never loaded.
_SECOND_BUILD = ".alt.so"
_LICENCES = ("license", "licence", "copying", "notice", "eula", "third-party", "thirdparty")
_ROOTS = ("purelib", "platlib")
# Files that compilers read at run time: libdevice for NVVM, libcudadevrt for kernels that start
# other kernels.
_FOR_COMPILERS = pattern(r"libdevice\.[0-9]+\.bc|libcudadevrt\.a")
_MAX_FILE_SIZE = 16 << 30
"""Bytes of one file."""
_SYMLINK = 0o120000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, RuntimeError)
"""The errors of `zipfile` for invalid archives."""


def sha256_of(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(wheel: Path, listed: ListedWheel, folder: Path) -> None:
    """Check a wheel and unpack its needed files into a folder of a store.

    :param folder: the folder for ``tree`` and ``wheel.txt``, which must not exist.
    :raises HashMismatch: the wheel has another hash; nothing was unpacked.
    :raises InvalidWheel: it cannot be unpacked.
    :raises OSError: the folder cannot be written.
    """
    actual = sha256_of(wheel)
    if actual != listed.sha256:
        raise HashMismatch(
            algorithm="sha256", expected=[listed.sha256], actual=actual, where=listed.filename
        )
    lines: list[tuple[str, ...]] = [
        ("wheel", listed.filename),
        ("project", listed.project),
        ("version", listed.version),
    ]
    paths_by_hash: dict[str, Path] = {}
    files: set[PurePosixPath] = set()
    folders: set[PurePosixPath] = set()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                path = _store_path(member.filename)
                if path is None or member.is_dir():
                    continue
                is_link = member.external_attr >> 16 & 0o170000 == _SYMLINK
                if (
                    is_link
                    or member.file_size > _MAX_FILE_SIZE
                    or member.compress_type not in _METHODS
                ):
                    raise InvalidWheel(f"{path} is not a plain file", where=listed.filename)
                if path in files or path in folders or not files.isdisjoint(path.parents):
                    raise InvalidWheel(
                        f"two files of the wheel have the same path: {path}",
                        where=listed.filename,
                    )
                files.add(path)
                folders.update(path.parents)
                target = folder / "tree" / path
                digest = _extract(archive, member, target, paths_by_hash)
                lines.append(("file", str(path), str(member.file_size), digest))
    except BROKEN_ARCHIVE as error:
        raise InvalidWheel(
            f"the wheel cannot be unpacked: {error}", where=listed.filename
        ) from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # of `seek`: an offset before the beginning
            raise
        raise InvalidWheel("the wheel cannot be unpacked", where=listed.filename) from None
    make_folder(str(folder))
    _sync(folder)
    write_fields(str(folder / "wheel.txt"), lines)


def _store_path(name: str) -> PurePosixPath | None:
    """Return the path of a member below ``tree``; None: it is not needed.

    :raises InvalidWheel: the name leads out of the wheel.
    """
    parts = PurePosixPath(name).parts
    if name.startswith("/") or ".." in parts or any(c in name for c in "\\\t\n\r\0"):
        raise InvalidWheel(f"a path in the wheel leads out of it: {name[:100]!r}")
    if not parts:
        return None
    last = parts[-1]
    is_library = _LIBRARY.fullmatch(last) is not None and _SECOND_BUILD not in last
    lowered = last.lower()
    is_metadata = parts[0].endswith(".dist-info") and (
        lowered == "metadata" or "licenses" in parts or lowered.startswith(_LICENCES)
    )
    is_licence = not lowered.endswith((".py", ".h", ".hpp")) and lowered.startswith(_LICENCES)
    is_header = "include" in parts[:-1] and not lowered.endswith(".py")
    is_for_compilers = is_header or _FOR_COMPILERS.fullmatch(last) is not None
    if not (is_library or is_metadata or is_licence or is_for_compilers):
        return None
    if len(parts) > 2 and parts[0].endswith(".data"):
        # `purelib` and `platlib` are installed at the top; others, as `data`, keep their name.
        parts = parts[2:] if parts[1] in _ROOTS else parts
    return PurePosixPath(*parts)


def _extract(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, paths_by_hash: dict[str, Path]
) -> str:
    make_folder(str(target.parent))
    digest = hashlib.sha256()
    with archive.open(member) as source, os.fdopen(new_file(str(target)), "wb") as file:
        while piece := source.read(_CHUNK_SIZE):
            digest.update(piece)
            file.write(piece)
    sha256 = digest.hexdigest()
    # Some wheels have a library three times, by each of its names.
    twin = paths_by_hash.setdefault(sha256, target)
    if twin != target:
        target.unlink()
        try:
            target.hardlink_to(twin)
        except OSError:
            shutil.copy(twin, target)
    return sha256


def _sync(folder: Path) -> None:
    """Wait until all written data is on the disk: once, as a wheel may have thousands of files."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if not hasattr(library, "syncfs"):
            os.sync()
        elif library.syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def damage_of(entry: StoredWheel) -> list[str]:
    """Return the faults of a stored wheel, one sentence each; none: it is intact."""
    files = entry.files()
    if not files:
        return ["wheel.txt is missing or truncated"]
    problems = []
    for path, size, digest in files:
        file = Path(entry.tree, path)
        try:
            if file.stat().st_size != size or sha256_of(file) != digest:
                problems.append(f"{path} was changed")
        except OSError as error:
            problems.append(f"{path} cannot be read: {os_reason(error)}")
    return problems
