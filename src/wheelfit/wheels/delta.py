"""Rebuild a wheel (the target) from the members of a similar one (the base) and fetched bytes.

Similar wheels share most members byte by byte: those with equal checksum, sizes and method in the
two central directories. The caller compares the hash of the target with the promised one, so the
result need only be probably right: headers that differ are derived from those of the base instead
of being fetched.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.wheels.zip_directory import (
    LOCAL_HEADER_SIZE,
    find_end,
    local_header_size,
    parse_directory,
)
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.zip_directory import DirectoryEnd


_LONGEST_EXTRA = 1 << 10  # bytes of extra fields, at most, that are read together with a header
_MIN_DATA_FOR_HEADER = 16 << 10  # bytes of data, at least, for which only the header is fetched
_TAIL_SIZE = 1 << 17  # bytes read at first for the directory


class HeaderFields(NamedTuple):
    """The fields of a member that do not depend on its content."""

    flags: int
    time: int
    """MS-DOS time."""
    date: int
    """MS-DOS date."""


class ContentFields(NamedTuple):
    """The fields by which members with the same data are found."""

    method: int
    crc: int
    packed_size: int
    """Bytes of the data in the archive."""
    size: int
    """Bytes of the unpacked content."""


class DirectoryEntry(NamedTuple):
    """The fields that identify a member."""

    name: bytes
    """Path inside the archive as it is written."""
    header: HeaderFields
    content: ContentFields
    start: int
    """The offset of the local header."""
    stop: int
    """The offset of the next member, or of the directory."""

    @property
    def size(self) -> int:
        """Bytes from its header to the next one."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Directory:
    """The central directory at the end of a wheel."""

    entries: tuple[DirectoryEntry, ...]
    """All members by their offsets."""
    end: DirectoryEnd
    """The position of the central directory."""
    size: int
    """Bytes of the wheel."""
    tail_start: int
    """The offset of ``tail``."""
    tail: bytes
    """The last bytes of the wheel: the directory and perhaps more."""


class RebuildPiece(NamedTuple):
    """A range of the target, and where its bytes come from: the base, ``data`` or a request."""

    start: int
    stop: int
    origin: int | None = None
    """The offset in the base; None if it does not come from there."""
    data: bytes | None = None
    """The bytes, if they are known."""

    @property
    def is_missing(self) -> bool:
        """Whether its bytes must still be fetched."""
        return self.origin is None and self.data is None


class MemberOrigin(NamedTuple):
    """The member of the base that has the same data."""

    name: str
    is_whole: bool
    """Whether its header, its directory entry and the bytes after its data are the same as well."""


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """The plan by which the target is put together."""

    pieces: tuple[RebuildPiece, ...]
    """The whole target, in order and without gaps."""
    origins: Mapping[str, MemberOrigin]
    """By name of a member of the target, the member of the base with its data."""

    @property
    def missing(self) -> tuple[RebuildPiece, ...]:
        """The pieces to fetch."""
        return tuple(piece for piece in self.pieces if piece.is_missing)

    @property
    def missing_bytes(self) -> int:
        """The number of missing bytes."""
        return sum(piece.stop - piece.start for piece in self.missing)


def read_directory(source: ByteSource, *, where: str) -> Directory:
    """Read the directory of a wheel, by random access."""
    start = max(0, source.size - _TAIL_SIZE)
    tail = source.read_at(start, source.size - start)
    end = find_end(tail, source.size, where=where)
    if end.offset < start:
        tail = source.read_at(end.offset, start - end.offset) + tail
    return directory_from_tail(tail, source.size, where=where)


def directory_from_tail(tail: bytes, size: int, *, where: str) -> Directory:
    """Read the directory in the last bytes of a wheel.

    :param size: bytes of the wheel.
    """
    start = size - len(tail)
    end = find_end(tail, size, where=where)
    entries = _parse_entries(tail[end.offset - start : end.stop - start], end, where)
    return Directory(entries, end, size, start, tail)


def _parse_entries(data: bytes, end: DirectoryEnd, where: str) -> tuple[DirectoryEntry, ...]:
    members = sorted(parse_directory(data, end, where=where), key=attrgetter("offset"))
    starts = [member.offset for member in members]
    stops = [*starts[1:], end.offset]
    if starts[:1] != [0] or any(start >= stop for start, stop in zip(starts, stops, strict=True)):
        raise InvalidWheel(
            "the members of the archive overlap or have gaps between them", where=where
        )
    return tuple(
        DirectoryEntry(
            member.name.encode(),
            HeaderFields(member.flags, member.time, member.date),
            ContentFields(member.method, member.crc, member.compressed_size, member.size),
            member.offset,
            stop,
        )
        for member, stop in zip(members, stops, strict=True)
    )


def shared_bytes(target: Directory, base: Directory) -> int:
    """Return the approximate number of packed bytes that two wheels share."""
    contents = {entry.content for entry in base.entries}
    return sum(entry.content.packed_size for entry in target.entries if entry.content in contents)


def make_plan(
    target: Directory, base: Directory, source: ByteSource, *, max_gap: int
) -> RebuildPlan:
    """Plan the assembly of a wheel.

    :param source: the bytes of the base.
    :param max_gap: missing parts with at most so many bytes between them are fetched together.
    :return: a plan that is only probably right.
    :raises OSError: the base cannot be read.
    """
    by_name = {entry.name: entry for entry in base.entries}
    by_content = {entry.content: entry for entry in base.entries}
    pieces: list[RebuildPiece] = []
    origins = {}
    for entry in target.entries:
        twin = by_name.get(entry.name)
        if twin is None or twin.content != entry.content:
            twin = by_content.get(entry.content) if entry.content.packed_size else None
        if twin is None:
            pieces.append(RebuildPiece(entry.start, entry.stop))
            continue
        is_whole = (twin.name, twin.header, twin.size) == (entry.name, entry.header, entry.size)
        origins[entry.name.decode()] = MemberOrigin(twin.name.decode(), is_whole)
        if is_whole:
            pieces.append(RebuildPiece(entry.start, entry.stop, twin.start))
        else:
            pieces += _pieces_from_twin(entry, twin, source)
    pieces.append(RebuildPiece(target.end.offset, target.size))
    pieces = [_with_tail_data(piece, target) if piece.is_missing else piece for piece in pieces]
    return RebuildPlan(tuple(_merge_present(_merge_missing(pieces, max_gap))), origins)


def _pieces_from_twin(
    entry: DirectoryEntry, twin: DirectoryEntry, source: ByteSource
) -> list[RebuildPiece]:
    """Return the pieces up to the next member, from a member with the same data."""
    length = LOCAL_HEADER_SIZE + len(twin.name) + _LONGEST_EXTRA
    header = source.read_at(twin.start, min(length, twin.size))
    if len(header) < LOCAL_HEADER_SIZE or local_header_size(header) > len(header):
        return [RebuildPiece(entry.start, entry.stop)]
    header = header[: local_header_size(header)]
    # The headers should differ in size by the lengths of the names only; then what follows them
    # has one size in both archives.
    header_size = len(header) + len(entry.name) - len(twin.name)
    if entry.size - header_size != twin.size - len(header):
        return [RebuildPiece(entry.start, entry.stop)]
    data_piece = RebuildPiece(entry.start + header_size, entry.stop, twin.start + len(header))
    new_header = _derived_header(header, entry, twin)
    if new_header is not None:
        return [RebuildPiece(entry.start, data_piece.start, data=new_header), data_piece]
    if entry.content.packed_size < _MIN_DATA_FOR_HEADER:
        return [RebuildPiece(entry.start, entry.stop)]
    return [RebuildPiece(entry.start, data_piece.start), data_piece]


def _derived_header(header: bytes, entry: DirectoryEntry, twin: DirectoryEntry) -> bytes | None:
    """Return the probable header of a member, made from another member's."""
    extra = header[LOCAL_HEADER_SIZE + len(twin.name) :]
    time, date = entry.header.time, entry.header.date
    if extra and (time, date) != (twin.header.time, twin.header.date):
        return None  # the extra fields may repeat the time
    fields = bytearray(header[:LOCAL_HEADER_SIZE])
    (header_flags,) = struct.unpack_from("<H", fields, 6)
    # Apply the difference of the flags in the directory.
    struct.pack_into("<H", fields, 6, header_flags ^ twin.header.flags ^ entry.header.flags)
    struct.pack_into("<2H", fields, 10, time, date)
    struct.pack_into("<H", fields, 26, len(entry.name))
    return bytes(fields) + entry.name + extra


def _with_tail_data(piece: RebuildPiece, target: Directory) -> RebuildPiece:
    """Return a piece, with its bytes if these are in the tail."""
    if piece.start < target.tail_start:
        return piece
    first, last = piece.start - target.tail_start, piece.stop - target.tail_start
    return RebuildPiece(piece.start, piece.stop, data=target.tail[first:last])


def _merge_missing(pieces: Sequence[RebuildPiece], max_gap: int) -> list[RebuildPiece]:
    """Return the pieces, with missing ones joined that lie close together."""
    result: list[RebuildPiece] = []
    last_missing = None  # its index in the result
    for piece in pieces:
        if not piece.is_missing:
            result.append(piece)
            continue
        if last_missing is not None and piece.start - result[last_missing].stop <= max_gap:
            # One missing piece also replaces the present pieces between the two.
            result[last_missing:] = [RebuildPiece(result[last_missing].start, piece.stop)]
        else:
            last_missing = len(result)
            result.append(piece)
    return result


def _merge_present(pieces: Iterable[RebuildPiece]) -> list[RebuildPiece]:
    """Join neighbouring pieces that are neighbours in the base too, or whose bytes are known."""
    result: list[RebuildPiece] = []
    pending: list[RebuildPiece] = []

    def flush() -> None:
        if pending:
            data = b"".join(piece.data or b"" for piece in pending)
            result.append(RebuildPiece(pending[0].start, pending[-1].stop, data=data))
            pending.clear()

    for piece in pieces:
        if piece.data is not None:
            pending.append(piece)
            continue
        flush()
        last = result[-1] if result else None
        if (
            last is not None
            and last.origin is not None
            and piece.origin == last.origin + last.stop - last.start
        ):
            result[-1] = RebuildPiece(last.start, piece.stop, last.origin)
        else:
            result.append(piece)
    flush()
    return result


class RebuiltWheel:
    """A wheel read from the pieces of a plan (a ``ByteSource``)."""

    def __init__(self, plan: RebuildPlan, base: ByteSource, fetched: ByteSource) -> None:
        self._pieces = plan.pieces
        self._starts = [piece.start for piece in plan.pieces]
        self._base = base
        self._fetched = fetched
        self.size = plan.pieces[-1].stop
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends."""
        stop = min(start + length, self.size)
        chunks = []
        index = bisect_right(self._starts, start) - 1
        while start < stop:
            piece = self._pieces[index]
            piece_stop = min(stop, piece.stop)
            data = self._read(piece, start, piece_stop)
            chunks.append(data)
            if len(data) != piece_stop - start:
                break  # the base was truncated meanwhile
            start, index = piece_stop, index + 1
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _read(self, piece: RebuildPiece, start: int, stop: int) -> bytes:
        if piece.data is not None:
            return piece.data[start - piece.start : stop - piece.start]
        if piece.origin is not None:
            return self._base.read_at(piece.origin + start - piece.start, stop - start)
        return self._fetched.read_at(start, stop - start)

    def close(self) -> None:
        """Do nothing: both files belong to the caller."""
