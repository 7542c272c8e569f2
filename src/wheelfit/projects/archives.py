"""Unpacking of a project's archive: a source distribution, or a repository as an archive.

The file name decides the format. All members are checked before the first one is written: they must
be files, folders or links in one top-level folder, and no name or link may lead out of it. No data
may follow the end of the archive, because other tools might read another project from it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from math import inf
from typing import IO, TYPE_CHECKING, BinaryIO, NamedTuple

from wheelfit.errors import InvalidSource, reporting_os_errors
from wheelfit.projects.names import ARCHIVE_SUFFIXES
from wheelfit.wheels.file_system import NATIVE
from wheelfit.wheels.paths import collision_faults, path_fault, target_faults
from wheelfit.wheels.zip_directory import TAIL_SIZE, check_extents, find_end, parse_directory
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


class ArchiveLimits(NamedTuple):
    """The limits on the unpacked content of an archive."""

    size: int = 4 << 30
    """Bytes of all members together."""
    members: int = 200_000


_CHUNK_SIZE = 1 << 20
"""Bytes read at once."""
_MIN_TIME = 315_619_200
"""1980-01-02 in seconds since 1970: ZIP archives, and so wheels, cannot store earlier times."""
_TAR_BLOCK = 512
"""Bytes of a header; members are padded to a multiple of them."""


def unpack_archive(
    path: Path, folder: Path, name: str, *, where: str, limits: ArchiveLimits = ArchiveLimits()
) -> Path:
    """Unpack an archive and return the folder of the project.

    :param name: the file name of the archive at its origin; it decides the format.
    :raises FileProblem: it cannot be read, or there is no space.
    :raises InvalidSource: it is not valid.
    """
    lower = name.lower()
    with reporting_os_errors("the archive cannot be unpacked", where=where):
        if lower.endswith(".zip"):
            top = _unpack_zip(path, folder, where, limits)
        elif lower.endswith(ARCHIVE_SUFFIXES):
            plain = folder / ".tar"
            _inflate(path, plain, lower, where, limits)
            top = _unpack_tar(plain, folder, where, limits)
            plain.unlink()
        else:
            raise InvalidSource(
                "this is not an archive of a project",
                where=where,
                hint=f"its name must end in one of {', '.join(ARCHIVE_SUFFIXES)}",
            )
    return folder / top


# --- members --------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """The relevant fields of a member."""

    name: str
    """Without ``/`` at the end, and without ``./`` at the beginning."""
    kind: int
    """As in `stat`: a file, a folder or a link."""
    size: int = 0
    executable: bool = False
    time: float = 0
    """The time of its last change, kept so that builds of one archive can be reproducible; 0 in ZIP
    archives, whose times have no zone.
    """
    target: str = ""
    """The target of a link, or, for a hard link, the name of the file."""


_HARD_LINK = -1
"""The kind of a hard link, which `stat` does not distinguish from a file."""


def _check_entries(
    entries: Sequence[_Entry], folder: Path, where: str, limits: ArchiveLimits
) -> str:
    """Check all members, and return the name of the only top-level folder.

    :raises InvalidSource: a member, or all of them together, may not be unpacked.
    """
    sizes = {entry.name: entry.size for entry in entries}
    # A hard link takes a few bytes in the archive, but is unpacked as a copy.
    unpacked_size = sum(
        sizes.get(entry.target, 0) if entry.kind == _HARD_LINK else entry.size for entry in entries
    )
    if unpacked_size > limits.size:
        raise InvalidSource(f"the archive unpacks to more than {limits.size} bytes", where=where)
    faults = [fault for entry in entries if (fault := path_fault(entry.name)) is not None]
    if not faults:
        # Folders may be listed or not, and some tools list them twice.
        folders = dict.fromkeys(f"{entry.name}/" for entry in entries if entry.kind == stat.S_IFDIR)
        names = [*folders, *(entry.name for entry in entries if entry.kind != stat.S_IFDIR)]
        faults += collision_faults(names) or target_faults(
            names,
            is_windows=os.name == "nt",
            ignores_case=not NATIVE.is_case_sensitive(folder),
        )
    if faults:
        faults = [fault.replace("out of the wheel", "out of the archive") for fault in faults]
        raise InvalidSource(faults[0], where=where, note="\n".join(faults[1:20]) or None)
    tops = {entry.name.partition("/")[0] for entry in entries}
    if len(tops) != 1:
        raise InvalidSource(
            "the archive must consist of one folder with the project",
            where=where,
            note=f"it has {', '.join(sorted(tops)[:5])}" if tops else "it is empty",
        )
    (top,) = tops
    if all(entry.name == top and entry.kind != stat.S_IFDIR for entry in entries):
        raise InvalidSource("the archive is a single file, not a project", where=where)
    by_name = {entry.name: entry for entry in entries}
    for entry in entries:
        _check_link(entry, top, by_name, where)
    return top


def _check_link(entry: _Entry, top: str, by_name: dict[str, _Entry], where: str) -> None:
    if entry.kind == _HARD_LINK:
        original = by_name.get(entry.target)
        if original is None or original.kind != stat.S_IFREG:
            raise InvalidSource(
                f"{entry.name!r} is a hard link to {entry.target!r}, which is not a file in the "
                "archive",
                where=where,
            )
    elif entry.kind == stat.S_IFLNK:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(entry.name), entry.target))
        is_inside = target == top or target.startswith(f"{top}/")
        if entry.target.startswith("/") or "\\" in entry.target or not is_inside:
            raise InvalidSource(
                f"{entry.name!r} is a link that leads out of the archive", where=where
            )


def _write(
    entries: Sequence[_Entry], folder: Path, top: str, open_member: Callable[[int], BinaryIO],
    where: str,
) -> None:  # fmt: skip
    """Write the members: folders, files, then links, so that nothing is written through one."""
    for entry in entries:
        if entry.kind == stat.S_IFDIR:
            (folder / entry.name).mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(entries):
        if entry.kind != stat.S_IFREG:
            continue
        path = folder / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_member(number) as source, path.open("xb") as target:
            shutil.copyfileobj(source, target, _CHUNK_SIZE)
            if target.tell() != entry.size:
                raise InvalidSource(f"the size of {entry.name!r} is not as declared", where=where)
        if entry.executable:
            path.chmod(path.stat().st_mode | 0o111)
        if entry.time > _MIN_TIME:
            os.utime(path, (entry.time, entry.time))
    for entry in entries:
        if entry.kind == _HARD_LINK:
            (folder / entry.name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / entry.target, folder / entry.name)
    links = []
    for entry in entries:
        if entry.kind == stat.S_IFLNK:
            path = folder / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(entry.target)
            links.append(path)
    real_top = os.path.realpath(folder / top)
    for path in links:  # a link may lead through another one
        real_target = os.path.realpath(path)
        if real_target != real_top and not real_target.startswith(real_top + os.sep):
            raise InvalidSource(
                f"{path.relative_to(folder).as_posix()!r} is a link that leads out of the archive",
                where=where,
            )


# --- tar --------------------------------------------------------------------------------------


def _inflate(path: Path, plain: Path, name: str, where: str, limits: ArchiveLimits) -> None:
    """Decompress an archive into a plain tar file, within the limits.

    A small file may expand to terabytes.
    """
    opener: Callable[[Path], IO[bytes]] = gzip.open  # type: ignore[assignment]
    if name.endswith(".bz2"):
        opener = bz2.open
    elif name.endswith(".xz"):
        opener = lzma.open
    # Headers and padding come on top of the members.
    remaining = limits.size + 4 * _TAR_BLOCK * limits.members
    try:
        with opener(path) as source, plain.open("xb") as target:
            while chunk := source.read(_CHUNK_SIZE):
                remaining -= len(chunk)
                if remaining < 0:
                    raise InvalidSource(
                        f"the archive unpacks to more than {limits.size} bytes", where=where
                    )
                target.write(chunk)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise InvalidSource(f"the archive is damaged: {error}", where=where) from None
    except OSError as error:
        if error.errno is not None:
            raise
        # Without an errno it is an error of the decompressor, such as bz2.
        raise InvalidSource(f"the archive is damaged: {error}", where=where) from None


def _unpack_tar(plain: Path, folder: Path, where: str, limits: ArchiveLimits) -> str:
    with (
        _converted_errors(where),
        _LimitedReader(plain.open("rb", buffering=0), where) as file,
        tarfile.open(fileobj=file, mode="r:", errorlevel=2) as archive,
    ):
        members: list[tarfile.TarInfo] = []
        for member in archive:
            members.append(member)
            file.left = _CHUNK_SIZE
            if len(members) > limits.members:
                raise InvalidSource(
                    f"the archive has more than {limits.members} members", where=where
                )
        file.left = inf  # content is read in pieces
        _check_end(plain, archive.offset, where)
        entries = [_tar_entry(member, file, where) for member in members]
        top = _check_entries(entries, folder, where, limits)

        def open_member(number: int) -> BinaryIO:
            stream = archive.extractfile(members[number])
            if stream is None:
                raise InvalidSource(f"{members[number].name!r} has no content", where=where)
            return stream  # type: ignore[return-value]

        _write(entries, folder, top, open_member, where)
        return top


class _LimitedReader(io.BufferedReader):
    """A file with a limit on reading, since `tarfile` reads whole headers into memory."""

    left: float = _CHUNK_SIZE
    """Bytes that may still be read."""

    def __init__(self, file: io.RawIOBase, where: str) -> None:
        super().__init__(file)
        self._where = where

    def read(self, size: int | None = -1, /) -> bytes:
        """Read bytes within the limit."""
        self.left -= inf if size is None or size < 0 else size
        if self.left < 0:
            raise InvalidSource(
                f"the archive has a header of more than {_CHUNK_SIZE} bytes", where=self._where
            )
        return super().read(size)


@contextmanager
def _converted_errors(where: str) -> Iterator[None]:
    """Convert errors of `tarfile` for invalid archives."""
    try:
        yield
    except (tarfile.TarError, EOFError, UnicodeError, ValueError, OverflowError) as error:
        raise InvalidSource(f"the archive is damaged: {error}", where=where) from None


def _size_in_header(member: tarfile.TarInfo, file: BinaryIO) -> int:
    """Return the size in the header before a member's content, without PAX headers."""
    file.seek(member.offset_data - tarfile.BLOCKSIZE)
    return tarfile.TarInfo.frombuf(file.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape").size


def _check_end(plain: Path, offset: int, where: str) -> None:
    """Check that no data follows the end, which other tools might read."""
    with plain.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(_CHUNK_SIZE):
            if chunk.count(0) != len(chunk):
                raise InvalidSource("data follows the end of the archive", where=where)


def _tar_entry(member: tarfile.TarInfo, file: BinaryIO, where: str) -> _Entry:
    if member.sparse is not None or (
        "size" in member.pax_headers and _size_in_header(member, file) != member.size
    ):
        # Tools disagree on whether the size in the header or that in the PAX header applies. Equal
        # ones are allowed, since uv's build backend writes both.
        raise InvalidSource(f"{member.name!r} has two different sizes", where=where)
    name = _normalised(member.name)
    if member.isdir():
        return _Entry(name, stat.S_IFDIR)
    if member.isreg():
        return _Entry(name, stat.S_IFREG, member.size, bool(member.mode & 0o111), member.mtime)
    if member.issym():
        return _Entry(name, stat.S_IFLNK, target=member.linkname)
    if member.islnk():
        return _Entry(name, _HARD_LINK, target=_normalised(member.linkname))
    raise InvalidSource(f"{member.name!r} is neither a file nor a folder", where=where)


def _normalised(name: str) -> str:
    """Return a name without ``./`` at the beginning and ``/`` at the end."""
    while name.startswith("./"):
        name = name[2:]
    return name.removesuffix("/") if name != "/" else name


# --- zip --------------------------------------------------------------------------------------


def _unpack_zip(path: Path, folder: Path, where: str, limits: ArchiveLimits) -> str:
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            start = max(0, size - TAIL_SIZE)
            file.seek(start)
            end = find_end(file.read(TAIL_SIZE), size, where=where)
            if end.count > limits.members:
                raise InvalidSource(
                    f"the archive has more than {limits.members} members", where=where
                )
            file.seek(end.offset)
            members = parse_directory(file.read(end.size), end, where=where)
            check_extents(members, end, where=where)
    except InvalidWheel as error:  # the same rules apply to both
        message = error.message.replace("the wheel", "the archive")
        raise InvalidSource(message, where=where, note=error.note) from None
    entries = [
        _Entry(_normalised(member.name), stat.S_IFDIR)
        if member.is_folder
        else _Entry(_normalised(member.name), stat.S_IFREG, member.size, member.is_executable)
        for member in members
    ]
    top = _check_entries(entries, folder, where, limits)
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if [info.orig_filename for info in infos] != [member.name for member in members]:
                raise InvalidSource(
                    "the directory of the archive can be read in two ways", where=where
                )
            _write(
                entries,
                folder,
                top,
                lambda number: archive.open(infos[number]),  # type: ignore[arg-type, return-value]
                where,
            )
    except (
        zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeError
    ) as error:  # fmt: skip
        raise InvalidSource(f"the archive is damaged: {error}", where=where) from None
    return top
