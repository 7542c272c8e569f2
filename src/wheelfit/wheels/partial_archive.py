"""Read a few files of dist-info, or the sizes, of a wheel with as few requests as possible.

The end of a wheel is read first. It has the end of the central directory with the entries of
dist-info, which come last in most wheels, and often the files themselves. So one or two requests
are enough, without the whole directory of a wheel with thousands of members.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.wheels.dist_info import check_text_size, dist_info_folder
from wheelfit.wheels.zip_archive import ZipArchive
from wheelfit.wheels.zip_directory import (
    LOCAL_HEADER_SIZE,
    Member,
    find_end,
    following_offsets,
    parse_directory,
    parse_directory_tail,
)
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.core.filename import WheelFilename
    from wheelfit.wheels.bytes_source import ByteSource

END_SIZE = 1 << 16
"""Bytes at the end of a wheel that are read first."""
_MAX_GAP = 48 << 10  # bytes between two files that are read together


def read_members(
    source: ByteSource, names: Sequence[str], *, filename: WheelFilename, where: str
) -> dict[str, bytes]:
    """Read files out of the dist-info folder of a wheel.

    :return: the content of the existing files.
    :raises InvalidWheel: the wheel is not valid, as far as it is read.
    """
    archive = _PartialArchive(source, where=where)
    members = archive.dist_info_members(names, filename)
    if len(members) < len(names) and not archive.is_whole:
        archive.read_directory()
        members = archive.dist_info_members(names, filename)
    try:
        return archive.contents_of(members)
    except InvalidWheel:
        if archive.is_whole:
            raise
        archive.read_directory()  # only all members together can prove a fault
        return archive.contents_of(archive.dist_info_members(names, filename))


def read_sizes(source: ByteSource, *, where: str) -> tuple[int, int]:
    """Return the sizes of a wheel, packed and unpacked.

    :raises InvalidWheel: the directory is not valid.
    """
    archive = _PartialArchive(source, where=where)
    if not archive.is_whole:
        archive.read_directory()
    return archive.size, sum(member.size for member in archive.members)


class _PartialArchive(ZipArchive):
    """An archive with the last members only, without the checks of all members together."""

    library = zlib  # a faster one takes longer to load than it saves

    def _open(self) -> None:
        self.size = self._source.size
        tail_start = max(0, self.size - END_SIZE)
        tail = self.read_bytes(tail_start, self.size - tail_start)
        self.end = find_end(tail, self.size, where=self.where)
        self.is_whole = False
        """Whether all members are known."""
        if self.end.offset >= tail_start:
            self.read_directory()
        else:
            directory = tail[: self.end.stop - tail_start]
            self._set_members(parse_directory_tail(directory, where=self.where))

    def read_directory(self) -> None:
        """Read the whole directory."""
        directory = self.read_bytes(self.end.offset, self.end.size)
        self._set_members(parse_directory(directory, self.end, where=self.where))
        self.is_whole = True

    def _set_members(self, members: tuple[Member, ...]) -> None:
        self.members = members
        self._by_name = {member.name: member for member in members}
        self._following = following_offsets(members, self.end)

    def dist_info_members(self, names: Sequence[str], filename: WheelFilename) -> dict[str, Member]:
        """Return the known members with some names in dist-info, by name."""
        folder = dist_info_folder(self._by_name, filename, where=self.where)
        if folder is None:
            return {}
        paths = {f"{folder}/{name}": name for name in names}
        members: dict[str, Member] = {}
        for member in self.members:
            if (name := paths.get(member.name)) is None:
                continue
            if name in members:
                raise InvalidWheel(f"{member.name!r} exists twice", where=self.where)
            size = max(member.size, member.compressed_size)
            check_text_size(member.name, size, folder, where=self.where)
            if name == "variant.json" and size > DEFAULT_LIMITS.size:  # F-30
                raise InvalidWheel(f"{member.name!r} has {size} bytes", where=self.where)
            members[name] = member
        return members

    def contents_of(self, members: Mapping[str, Member]) -> dict[str, bytes]:
        """Return the contents of members, which are fetched at once if they are near each other."""
        if members:
            start = min(member.offset for member in members.values())
            stop = max(self._following[member.offset] for member in members.values())
            packed_size = sum(member.compressed_size for member in members.values())
            if 0 < stop - start <= packed_size + _MAX_GAP:
                self._source.read_at(start, stop - start)
        return {name: self.read(member.name) for name, member in members.items()}

    def _check_start(self, member: Member, length: int) -> tuple[int, bytes]:
        if self._following[member.offset] - member.offset < LOCAL_HEADER_SIZE:
            raise InvalidWheel(f"{member.name!r} overlaps what follows it", where=self.where)
        return super()._check_start(member, length)
