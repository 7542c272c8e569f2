"""Open a ZIP archive, and check everything in it before it is used.

Opening reads and checks the central directory. The structures around the data of a member are
compared with the directory when the member is read.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wheelfit.errors import reporting_os_errors
from wheelfit.wheels.atomic_write import write_all
from wheelfit.wheels.bytes_source import ByteSource, LocalFile, SeekableFile, open_local
from wheelfit.wheels.inflate import inflate, inflate_whole
from wheelfit.wheels.paths import collision_faults
from wheelfit.wheels.zip_directory import (
    LOCAL_HEADER_SIZE,
    LONGEST_DESCRIPTOR,
    TAIL_SIZE,
    TAR_BLOCK,
    check_extents,
    check_local_header,
    check_trailer,
    find_end,
    following_offsets,
    is_tar,
    local_header_size,
    parse_directory,
)
from wheelfit_runtime.errors import Fault, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, BinaryIO, Self

    from wheelfit.wheels.zip_directory import DirectoryEnd, Member


_PIECE = 1 << 18
_BEGINNING = 1 << 12  # packed bytes that `beginning` reads
_KERNEL_PIECE = 32 << 20
_ADJACENT_SIZE = 1 << 20  # bytes of small members that are read at once
_MAX_READ_SIZE = 64 << 20  # bytes of a file that is read as a whole
_USUAL_EXTRA = 64  # bytes of the extra fields that are read with a local header
_MIN_SIZE_FOR_RATIO = 64 << 20  # unpacked bytes up to which the ratio is not checked
_MAX_RATIO = 50  # the limit of the public registry
_MAX_REPORTED = 50


class ZipArchive:
    """An archive on disk, in memory or still being downloaded, opened to read its members.

    Several threads may read at once. Every reading method may raise `InvalidWheel` for missing, too
    large, damaged or truncated data.

    :param source: the path of the archive; or a seekable binary file or another source of bytes,
        which `close` leaves open.
    :param lenient: whether to open an archive with colliding names; `tolerated` has the collisions.
    :param expected: the central directory and the members of an archive that was just written, so
        that they need not be parsed.
    :raises FileProblem: it cannot be read.
    :raises InvalidWheel: it is not valid.
    """

    library: Any = None
    """The library with which `read` decompresses; None: the fastest one."""

    def __init__(
        self,
        source: Path | BinaryIO | ByteSource,
        *,
        where: str,
        lenient: bool = False,
        expected: tuple[bytes, tuple[Member, ...]] | None = None,
    ) -> None:
        self.where = where
        """The name in errors."""
        self.tolerated: list[Fault] = []
        """The faults that are errors unless the archive is opened leniently."""
        self._lenient = lenient
        self._expected = expected
        self._owns_source = isinstance(source, Path)
        with reporting_os_errors("the wheel cannot be read", where=self.where):
            self._source = _source_of(source)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self.size = self._source.size
        """Bytes of the archive."""
        tail_start = max(0, self.size - TAIL_SIZE)
        tail = self.read_bytes(tail_start, self.size - tail_start)
        self.end: DirectoryEnd = find_end(tail, self.size, where=self.where)
        """The position of the central directory."""
        directory = self.read_bytes(self.end.offset, self.end.size)
        self.members: tuple[Member, ...]
        """All entries of the archive, in its order, folders included."""
        if self._expected is not None and self._expected[0] == directory:
            self.members = self._expected[1]
        else:
            self.members = parse_directory(directory, self.end, where=self.where)
        self._check_members()
        self._by_name = {member.name: member for member in self.members}

    def _check_members(self) -> None:
        """Check the rules about all members together."""
        if not self.members:
            raise InvalidWheel("the archive is empty", where=self.where)
        check_extents(self.members, self.end, where=self.where)
        if is_tar(self.read_bytes(0, min(TAR_BLOCK, self.size))):
            raise InvalidWheel("the file is also a tar archive", where=self.where)
        self._following = following_offsets(self.members, self.end)
        for fault in collision_faults(member.name for member in self.members):
            self.tolerated.append(Fault("", fault, "B-34"))
        if self.tolerated and not self._lenient:
            raise faults_error([fault.message for fault in self.tolerated], self.where)
        unpacked = sum(member.size for member in self.members)
        if unpacked > _MIN_SIZE_FOR_RATIO and unpacked > _MAX_RATIO * self.size:
            raise InvalidWheel(
                f"the archive unpacks to {unpacked // self.size} times its size",
                where=self.where,
                hint="the archive may be made to fill the disk",
            )

    # --- closing ------------------------------------------------------------------

    def close(self) -> None:
        """Close the archive, if it was opened by its path."""
        if self._owns_source:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- members --------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """Return the names of all files, without folders, in the order of the archive."""
        return self._names

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members if not member.is_folder)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def member(self, name: str) -> Member:
        """Return the entry of a member."""
        try:
            return self._by_name[name]
        except KeyError:
            raise InvalidWheel(f"it has no {name!r}", where=self.where) from None

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in pieces of at most 512 KiB.

        Size and CRC-32 are checked with the last piece.
        """
        member = self.member(name)
        return inflate(member, self._packed(member), where=self.where)

    def beginning(self, name: str) -> bytes:
        """Return the first bytes of a file, unchecked."""
        member = self.member(name)
        return next(inflate(member, self._packed(member, _BEGINNING), where=self.where), b"")

    def read(self, name: str) -> bytes:
        """Return the content of a file of at most 64 MiB."""
        member = self.member(name)
        if member.size > _MAX_READ_SIZE:
            raise InvalidWheel(f"{name!r} has {member.size} bytes", where=self.where)
        length = LOCAL_HEADER_SIZE + member.name_size + _USUAL_EXTRA + member.compressed_size
        start, data = self._check_start(member, length)
        header_size = start - member.offset
        packed = data[header_size : header_size + member.compressed_size]
        if missing_size := member.compressed_size - len(packed):  # its extra fields are long
            packed += self.read_bytes(start + len(packed), missing_size)
        return inflate_whole(member, packed, where=self.where, library=self.library)

    def contents(self, members: Iterable[Member]) -> Iterator[tuple[Member, bytes]]:
        """Yield small files with their contents; adjacent files are read together."""
        for first, stop, adjacent in self._adjacent(members):
            data = self.read_bytes(first, stop - first)
            for member in adjacent:
                whole = data[member.offset - first : self._following[member.offset] - first]
                header = check_local_header(whole, member, where=self.where)
                end = header.size + member.compressed_size
                trailer = whole[end : end + LONGEST_DESCRIPTOR]
                check_trailer(header, member, trailer, len(whole) - end, where=self.where)
                yield member, inflate_whole(member, whole[header.size : end], where=self.where)

    def _adjacent(self, members: Iterable[Member]) -> Iterator[tuple[int, int, list[Member]]]:
        """Yield ranges of the archive with adjacent members."""
        first = stop = 0
        adjacent: list[Member] = []
        for member in members:
            if adjacent and (member.offset != stop or stop - first >= _ADJACENT_SIZE):
                yield first, stop, adjacent
                adjacent = []
            if not adjacent:
                first = member.offset
            adjacent.append(member)
            stop = self._following[member.offset]
        if adjacent:
            yield first, stop, adjacent

    def data_start(self, member: Member) -> int:
        """Return the offset of a member's packed data, after checking its local header.

        :raises InvalidWheel: the local header contradicts the central directory, or
            something that belongs to no member follows the data.
        """
        start, _ = self._check_start(member, LOCAL_HEADER_SIZE + member.name_size + _USUAL_EXTRA)
        return start

    def _check_start(self, member: Member, length: int) -> tuple[int, bytes]:
        """Check the local header of a member, and the bytes after its data.

        :param length: the number of bytes to read from its local header on; fewer if it is shorter.
        :return: the offset of the data, and the bytes read.
        """
        whole_size = self._following[member.offset] - member.offset
        data = self.read_bytes(member.offset, min(length, whole_size))
        if (header_size := local_header_size(data)) > len(data):
            data = self.read_bytes(member.offset, min(header_size, whole_size))
        header = check_local_header(data, member, where=self.where)
        stop = header.size + member.compressed_size
        gap = whole_size - stop
        trailer = b""
        if gap > 0:
            trailer = data[stop : stop + LONGEST_DESCRIPTOR]
            if len(trailer) < min(gap, LONGEST_DESCRIPTOR):
                trailer = self.read_bytes(member.offset + stop, min(gap, LONGEST_DESCRIPTOR))
        check_trailer(header, member, trailer, gap, where=self.where)
        return member.offset + header.size, data

    def read_bytes(self, start: int, length: int) -> bytes:
        """Return bytes of the archive as they are."""
        data = self._source.read_at(start, length)
        if len(data) != length:
            raise InvalidWheel("the archive is truncated", where=self.where)
        return data

    def reserve_space(self, length: int, target: BinaryIO) -> None:
        """Reserve disk space for bytes that `copy_bytes` will write.

        :raises OSError: there is not enough space.
        """
        if sys.platform == "linux" and isinstance(self._source, LocalFile):
            from wheelfit.wheels.system_calls import reserve_space  # imports ctypes

            reserve_space(self._source.fileno(), target.fileno(), length)

    def copy_bytes(
        self, start: int, length: int, target: BinaryIO, *, starts_writeback: bool = False
    ) -> None:
        """Write bytes of the archive as they are to a file on disk.

        The kernel copies where it can; some file systems then share the blocks.

        :param starts_writeback: whether the kernel starts to write the bytes to disk at once, so
            that a later fsync takes less time.
        """
        copied = self._copy_in_kernel(start, length, target, starts_writeback=starts_writeback)
        for position in range(start + copied, start + length, _PIECE):
            piece = self.read_bytes(position, min(_PIECE, start + length - position))
            write_all(target, piece)

    def _copy_in_kernel(
        self, start: int, length: int, target: BinaryIO, *, starts_writeback: bool
    ) -> int:
        """Copy as many bytes as the kernel can; return their number."""
        copied = 0
        if sys.platform == "linux" and isinstance(self._source, LocalFile):
            # The kernel cannot copy between different file systems, or to a file in memory.
            with suppress(OSError):
                source_fd, target_fd = self._source.fileno(), target.fileno()
                while copied < length:
                    piece = min(_KERNEL_PIECE, length - copied)
                    count = os.copy_file_range(source_fd, target_fd, piece, start + copied)
                    if not count:
                        break
                    copied += count
                    if starts_writeback and length > _KERNEL_PIECE:
                        from wheelfit.wheels.system_calls import start_writeback

                        start_writeback(target_fd, target.tell() - count, count)
        return copied

    def _packed(self, member: Member, piece: int = _PIECE) -> Iterator[bytes]:
        # A small member is read together with its header.
        length = LOCAL_HEADER_SIZE + member.name_size + _USUAL_EXTRA + member.compressed_size
        start, data = self._check_start(member, min(length, piece))
        stop = start + member.compressed_size
        if start - member.offset < len(data):  # part of the packed data is already read
            yield data[start - member.offset : stop - member.offset]
        for position in range(member.offset + len(data), stop, piece):
            yield self.read_bytes(position, min(piece, stop - position))


def _source_of(source: Path | BinaryIO | ByteSource) -> ByteSource:
    if isinstance(source, Path):
        return open_local(source)
    if hasattr(source, "read_at"):
        return cast("ByteSource", source)
    return SeekableFile(source)


def faults_error(faults: Sequence[str], where: str) -> InvalidWheel:
    """Return the error that reports several faults together."""
    first, *rest = faults
    message = first if not rest else f"{len(faults)} faults; the first: {first}"
    shown = [f"- {fault}" for fault in faults[:_MAX_REPORTED]]
    if len(faults) > _MAX_REPORTED:
        shown.append(f"… and {len(faults) - _MAX_REPORTED} more")
    return InvalidWheel(message, where=where, note="\n".join(shown) if rest else None)
