"""A wheel unpacked in a folder, every byte of it verified when it was written.

The folder has two parts: ``tree`` with the files of the wheel, and ``manifest``, which lists them
with their status at that time, so that thousands of files need not be read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.wheels.dist_info import check_text_size, dist_info_folder
from wheelfit.wheels.record import Record, RecordRow, parse_record
from wheelfit_runtime.errors import InvalidWheel, os_reason
from wheelfit_runtime.platforms.cache_folder import is_own, own_users

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wheelfit.core.filename import WheelFilename

TREE = "tree"
"""Name of the folder with the files."""
MANIFEST = "manifest"
"""Name of the file that describes them; a folder without it is not an unpacked wheel."""

_MAGIC = b"wheelfit unpacked 1"
_LEADING_OUT = ("\t/", "\t../", "/../", "/..\t", "\t..\t")
"""Texts in a tab-separated list of names with a name that leads out of the folder."""
_MAX_READ_SIZE = 64 << 20  # bytes of a file that is read as a whole


class UnpackedFile(Struct, frozen=True):
    """A file as it was when it was written and verified."""

    row: RecordRow
    """Its content as a row of RECORD."""
    size: int
    executable: bool
    """Whether it was executable where the wheel was made."""
    mtime_ns: int
    """Its time of modification when it was written; an edited file has another one."""


class FileTable(Mapping[str, UnpackedFile]):
    """The files of a wheel by name, stored in columns, as there may be tens of thousands.

    :param names: the names of the files, in the order of the archive.
    :param hashes: for each, ``algorithm=digest`` as in RECORD.
    :param sizes: for each, its bytes.
    :param executable_flags: for each, ``x`` if it is executable, else ``-``.
    :param times: for each, its time of modification in nanoseconds when it was written.
    """

    def __init__(
        self,
        names: Sequence[str],
        hashes: Sequence[str],
        sizes: Sequence[int],
        executable_flags: str,
        times: Sequence[int],
    ) -> None:
        if not len(names) == len(hashes) == len(sizes) == len(executable_flags) == len(times):
            raise ValueError("the columns have different lengths")
        self.names = names
        self.hashes = hashes
        self.sizes = sizes
        self.executable_flags = executable_flags
        self.times = times

    @cached_property
    def folders(self) -> Mapping[str, Mapping[str, int]]:
        """By folder, empty for the root, the index in the columns of each file by its name."""
        by_folder: dict[str, dict[str, int]] = {}
        last: str | None = None
        for number, path in enumerate(self.names):
            folder, _, name = path.rpartition("/")
            if folder != last:  # the files of a folder are usually adjacent
                last, inside = folder, by_folder.setdefault(folder, {})
            inside[name] = number
        return by_folder

    def __getitem__(self, name: str) -> UnpackedFile:
        folder, slash, last = name.rpartition("/")
        if slash and not folder:
            raise KeyError(name)
        number = self.folders[folder][last]
        size = self.sizes[number]
        row = RecordRow(name, self.hashes[number], str(size))
        return UnpackedFile(row, size, self.executable_flags[number] == "x", self.times[number])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class FolderState(Struct, frozen=True):
    """The present state of the files of an unpacked wheel."""

    changed: str | None
    """The name of a file or folder that was changed since it was written; None if none was."""
    inodes: Sequence[int] = ()
    """The inode number of each file, if none was changed."""


class UnpackedWheel(Struct, frozen=True):
    """An unpacked wheel, whose files were verified when they were written."""

    folder: Path
    filename: WheelFilename
    sha256: str
    """SHA-256 of the archive, hexadecimal."""
    dist_info: str
    """Name of the dist-info folder, without a slash."""
    files: FileTable
    """Every file by its name in the wheel, in the order of the archive."""
    umask: int
    """The umask with which the files were created."""
    where: str
    """The name in errors."""
    inodes: Sequence[int] = ()
    """The inode numbers from `inspect` when the wheel was found in the cache; empty: unknown."""

    def names(self) -> tuple[str, ...]:
        """Return the names of all files in the order of the archive."""
        return tuple(self.files)

    def path_of(self, name: str) -> Path:
        """Return the path of a file; it may be linked elsewhere, so it must not be changed."""
        return self.folder / TREE / name

    def is_executable(self, name: str) -> bool:
        """Return whether a file was executable where the wheel was made."""
        return self.files[name].executable

    def read(self, name: str) -> bytes:
        """Return the content of a file of at most 64 MiB.

        :raises InvalidWheel: there is no such file, it is too large, or it cannot be read.
        """
        file = self.files.get(name)
        if file is None:
            raise InvalidWheel(f"it has no {name!r}", where=self.where)
        check_text_size(name, file.size, self.dist_info, where=self.where)
        if file.size > _MAX_READ_SIZE:
            raise InvalidWheel(f"{name!r} has {file.size} bytes", where=self.where)
        try:
            return self.path_of(name).read_bytes()
        except OSError as error:
            raise InvalidWheel(
                f"{name!r} cannot be read: {os_reason(error)}",
                where=self.where,
            ) from error

    def metadata(self) -> bytes:
        """Return METADATA."""
        return self.read(f"{self.dist_info}/METADATA")

    def variant_document(self) -> bytes | None:
        """Return ``variant.json``; None if the wheel has none."""
        name = f"{self.dist_info}/variant.json"
        file = self.files.get(name)
        if file is None:
            return None
        if file.size > DEFAULT_LIMITS.size:  # F-30
            raise InvalidWheel(f"{name!r} has {file.size} bytes", where=self.where)
        return self.read(name)

    def record(self) -> Record:
        """Return the rows of RECORD."""
        name = f"{self.dist_info}/RECORD"
        return parse_record(self.read(name), where=f"{self.where}/{name}")

    def changed(self) -> str | None:
        """Return the name of a file or folder that was changed; None if none was."""
        return self.inspect().changed

    def inspect(self) -> FolderState:
        """Compare size, time, type and owner of every file with the manifest.

        This detects every edit of a linked file, except one that restores the time; the contents
        are not read.
        """
        folder = self.foreign_folder()
        if folder is not None:
            return FolderState(folder)
        tree = str(self.folder / TREE) + os.sep
        files = self.files
        inodes: list[int] = []
        own_ids = own_users()
        add_inode, lstat = inodes.append, os.lstat  # handles of folders would not be quicker here
        for name, size, time in zip(files.names, files.sizes, files.times, strict=True):
            try:
                status = lstat(tree + name)
            except OSError:
                return FolderState(name)
            is_same = status.st_mtime_ns == time and status.st_size == size
            if not is_same or not stat.S_ISREG(status.st_mode) or status.st_uid not in own_ids:
                return FolderState(name)
            add_inode(status.st_ino)
        return FolderState(None, inodes)

    def foreign_folder(self) -> str | None:
        """Return the name of a folder in the tree that is a link, or another user's.

        The cache checks the folder of the wheel, so no other user can change anything in it now;
        but another user may have changed something earlier.
        """
        tree = str(self.folder / TREE)
        own_ids = own_users()
        folders = {""}
        for name in self.files.folders:
            while name not in folders:
                folders.add(name)
                name = name.rpartition("/")[0]  # noqa: PLW2901 - up to what is known
        for name in folders:
            try:
                status = os.lstat(f"{tree}/{name}" if name else tree)
            except OSError:
                return name
            if not stat.S_ISDIR(status.st_mode) or status.st_uid not in own_ids:
                return name
        return None


def write_manifest(wheel: UnpackedWheel) -> None:
    """Write the manifest for `read_unpacked`, without waiting for the disk."""
    files = wheel.files
    # No name of a member contains a control character, such as a tab or a line end.
    lines = (
        f"{wheel.sha256}\t{wheel.dist_info}\t{wheel.umask:o}",
        "\t".join(files.names),
        "\t".join(files.hashes),
        "\t".join(map(str, files.sizes)),
        files.executable_flags,
        "\t".join(map(str, files.times)),
    )
    body = "\n".join(lines).encode()
    digest = hashlib.sha256(body).hexdigest().encode()
    with open(wheel.folder / MANIFEST, "wb", opener=_open_private) as manifest:
        manifest.write(b"%s %s\n%s" % (_MAGIC, digest, body))


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def release_of(folder: Path) -> str | None:
    """Return name and version of the wheel in a folder, from its dist-info.

    Only the beginning of the manifest is read, and not checked.

    :return: as ``torch-2.8.0``; None if no wheel is there.
    """
    try:
        with (folder / MANIFEST).open("rb") as manifest:
            start = manifest.read(1 << 10).decode(errors="replace")
    except OSError:
        return None
    fields = start.partition("\n")[2].split("\t")
    return fields[1].removesuffix(".dist-info") if len(fields) > 2 else None


def read_unpacked(folder: Path, filename: WheelFilename, *, where: str) -> UnpackedWheel | None:
    """Return the wheel in a folder; None if there is no complete one.

    :raises InvalidWheel: the wheel is of another release than its name states.
    """
    try:
        with (folder / MANIFEST).open("rb") as manifest:
            if not is_own(os.fstat(manifest.fileno())):
                return None
            data = manifest.read()
    except OSError:
        return None
    head, _, body = data.partition(b"\n")
    if head != b"%s %s" % (_MAGIC, hashlib.sha256(body).hexdigest().encode()):
        return None
    try:
        first, names, hashes, sizes, executable_flags, times = body.decode().split("\n")
        sha256, dist_info, umask = first.split("\t")
        files = FileTable(
            names.split("\t"),
            hashes.split("\t"),
            list(map(int, sizes.split("\t"))),
            executable_flags,
            list(map(int, times.split("\t"))),
        )
        umask_value = int(umask, 8)
    except ValueError:
        return None  # not as `write_manifest` writes it
    if any(piece in f"\t{names}\t" for piece in _LEADING_OUT):
        return None
    dist_info_folder([f"{dist_info}/METADATA"], filename, where=where)
    return UnpackedWheel(folder, filename, sha256, dist_info, files, umask_value, where)
