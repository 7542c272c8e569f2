"""Unpack a wheel into a folder, and verify every byte on the way.

What RECORD promises is held against the central directory first, so that most of what can be
wrong is found before anything is written; the contents are compared while they are unpacked.
Nothing but folders and regular files is ever created.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wheelfit.errors import InvalidWheel
from wheelfit.values import replace
from wheelfit.wheels.archive import SIGNATURES
from wheelfit.wheels.record import DIGEST_SIZES, RecordRow, StreamHash
from wheelfit.wheels.unpacked import TREE, UnpackedFile, UnpackedWheel, write_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wheelfit.wheels.archive import WheelArchive
    from wheelfit.wheels.zip_directory import Member

__all__ = ["unpack"]


def __dir__() -> list[str]:
    return __all__


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def unpack(
    archive: WheelArchive,
    folder: Path,
    *,
    sha256: str | Callable[[], str],
    advance: Callable[[int], None] = lambda _: None,
    known: Callable[[Member, RecordRow], Path | None] = lambda _member, _row: None,
) -> UnpackedWheel:
    """Unpack a wheel; after an error what lies in the folder is worthless.

    :param archive: the wheel.
    :param folder: an empty folder.
    :param sha256: of the archive; a function is asked when everything was read.
    :param advance: told of unpacked bytes.
    :param known: names a file that has the very content of a member, to be linked instead.
    :raises InvalidWheel: the wheel is not sound, or not what its RECORD promises.
    :raises OSError: the folder cannot be written.
    """
    promises = _promises(archive)
    tree = folder / TREE
    tree.mkdir()
    umask = _umask_in(folder)
    files: dict[str, UnpackedFile] = {}
    made = {""}
    for member in archive.members:
        if member.is_folder:
            archive.data_start(member)  # its local header counts too
            continue
        above = member.name.rpartition("/")[0]
        if above not in made:
            (tree / above).mkdir(parents=True, exist_ok=True)
            made.add(above)
        files[member.name] = _write(archive, member, promises.get(member.name), tree, umask)
        advance(member.size)
    digest = sha256 if isinstance(sha256, str) else sha256()
    wheel = UnpackedWheel(
        folder, archive.filename, digest, archive.dist_info, files, umask, archive.where
    )
    write_manifest(wheel)
    return wheel


def _promises(archive: WheelArchive) -> dict[str, RecordRow]:
    """Return the row of every file that needs one; each has a strong hash and the right size."""
    dist_info = archive.dist_info
    rows: dict[str, RecordRow] = {}
    faults = []
    for row in archive.record().rows:
        if row.path in rows:
            faults.append(f"{row.path} is in RECORD twice")
        rows[row.path] = row
    # A row without a file does no harm; there are such in well-known wheels.
    without = {f"{dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    found = {}
    for member in archive.members:
        name = member.name
        if member.is_folder or name in without:
            continue
        promise = rows.get(name)
        if promise is None:
            faults.append(f"{name} is not in RECORD")
        elif promise.hash.partition("=")[0] not in DIGEST_SIZES:
            faults.append(f"{name} has no strong hash in RECORD")
        elif not (promise.size.isascii() and promise.size.isdigit()):
            faults.append(f"{name} has no size in RECORD")
        elif promise.size != str(member.size):
            faults.append(f"{name} has another size than RECORD says")
        else:
            # Padding is not wanted but seen; nothing depends on it.
            found[name] = replace(promise, hash=promise.hash.rstrip("="))
    if faults:
        raise InvalidWheel(faults[0], where=archive.where, note="\n".join(faults[1:20]) or None)
    return found


def _write(
    archive: WheelArchive, member: Member, promise: RecordRow | None, tree: Path, umask: int
) -> UnpackedFile:
    """Write one file; without a promise its CRC is all there is to compare."""
    algorithm = "sha256" if promise is None else promise.hash.partition("=")[0]
    seen = StreamHash(algorithm)
    number = os.open(tree / member.name, _NEW, 0o777 if member.is_executable else 0o666)
    try:
        for piece in archive.chunks(member.name):
            seen.update(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(number, view) :]
        if member.is_executable and umask & 0o111 and hasattr(os, "fchmod"):
            os.fchmod(number, 0o777 & ~umask | 0o111)
        found = os.fstat(number)
    finally:
        os.close(number)
    row = seen.row(member.name)
    if promise is not None and row != promise:
        raise InvalidWheel(
            f"{member.name} is not what RECORD of the wheel promises",
            where=archive.where,
            note=f"RECORD says {promise.hash}, {promise.size} bytes\n"
            f"found is    {row.hash}, {row.size} bytes",
            hint="the wheel was damaged or changed",
        )
    return UnpackedFile(row, seen.size, member.is_executable, found.st_mtime_ns)


def _umask_in(folder: Path) -> int:
    """Return which permissions new files do not get; asking for the umask would change it."""
    probe = folder / "probe"
    number = os.open(probe, _NEW, 0o777)
    try:
        return 0o777 & ~os.fstat(number).st_mode
    finally:
        os.close(number)
        probe.unlink()
