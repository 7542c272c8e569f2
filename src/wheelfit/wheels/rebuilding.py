"""Find out which bytes of a wheel lie in another one, and read both as if they were one file.

Wheels that differ in little besides their name share most members byte by byte. The two central
directories tell which: equal checksum, sizes and method. That is a guess, and it need not be
more: whoever uses it compares the hash of the whole with what was promised of it. So headers
that are not at hand are made from those of the other wheel instead of being asked for.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING

from wheelfit.values import dataclass
from wheelfit.wheels.zip_directory import (
    LOCAL_HEADER_SIZE,
    find_end,
    following_offsets,
    local_header_size,
    parse_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.zip_directory import DirectoryEnd, Member


__all__ = ["Directory", "Piece", "Plan", "Rebuilt", "make_plan", "read_directory", "shared_bytes"]


def __dir__() -> list[str]:
    return __all__


_LONGEST_EXTRA = 1 << 10  # bytes of extra fields that come with a header in one go
_WORTH_A_HEADER = 16 << 10  # bytes of data for which a header alone is asked for
_FULL32 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Directory:
    """Hold what the end of a wheel says about the whole."""

    members: tuple[Member, ...]
    """All members."""
    end: DirectoryEnd
    """Where the central directory lies."""
    size: int
    """Bytes of the whole wheel."""
    tail_start: int
    """Where the bytes at hand begin."""
    tail: bytes
    """The last bytes of the wheel, the directory and maybe more."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Say where a part of a wheel comes from."""

    start: int
    """Position of the first byte."""
    stop: int
    """Position behind the last byte."""
    origin: int | None = None
    """Where it begins in the other wheel; None if it does not come from there."""
    data: bytes | None = None
    """The bytes if they are known; None with no origin either: they must be fetched."""

    @property
    def is_missing(self) -> bool:
        """Whether nobody has it yet."""
        return self.origin is None and self.data is None


@dataclass(frozen=True, slots=True)
class Plan:
    """Say how a wheel is put together."""

    pieces: tuple[Piece, ...]
    """All of it, in order and without gaps."""
    origins: Mapping[str, str]
    """For members whose data the other wheel has, their names there."""

    @property
    def missing(self) -> tuple[Piece, ...]:
        """What must be fetched."""
        return tuple(piece for piece in self.pieces if piece.is_missing)

    @property
    def missing_bytes(self) -> int:
        """How much that is."""
        return sum(piece.stop - piece.start for piece in self.missing)


def read_directory(source: ByteSource, *, where: str) -> Directory:
    """Read the directory of a wheel that is at hand.

    :param source: the wheel.
    :param where: what to name in an error.
    :raises InvalidWheel: it is not sound.
    """
    start = max(0, source.size - (1 << 17))
    tail = source.read_at(start, source.size - start)
    end = find_end(tail, source.size, where=where)
    if end.offset < start:
        tail = source.read_at(end.offset, start - end.offset) + tail
        start = end.offset
    directory = tail[end.offset - start : end.stop - start]
    members = parse_directory(directory, end, where=where)
    return Directory(members, end, source.size, start, tail)


def shared_bytes(wanted: Directory, other: Directory) -> int:
    """Return about how many packed bytes of a wheel another one has.

    :param wanted: the wheel.
    :param other: the other one.
    """
    there = {_content(member) for member in other.members}
    return sum(m.compressed_size for m in wanted.members if _content(m) in there)


def make_plan(wanted: Directory, other: Directory, source: ByteSource, *, near: int) -> Plan:
    """Plan how to put a wheel together.

    :param wanted: the wheel.
    :param other: the other one.
    :param source: the bytes of the other one.
    :param near: missing parts with no more bytes between them are fetched together.
    :return: what is only likely to be right.
    :raises OSError: the other one cannot be read.
    """
    by_name = {member.name: member for member in other.members}
    by_content = {_content(member): member for member in other.members}
    here = following_offsets(wanted.members, wanted.end)
    there = following_offsets(other.members, other.end)
    pieces: list[Piece] = []
    origins = {}
    for member in sorted(wanted.members, key=lambda member: member.offset):
        stop = here[member.offset]
        twin = by_name.get(member.name)
        if twin is None or _content(twin) != _content(member):
            twin = by_content.get(_content(member)) if member.compressed_size else None
        if twin is None:
            pieces.append(Piece(member.offset, stop))
            continue
        origins[member.name] = twin.name
        pieces += _from_twin(member, stop, twin, there[twin.offset], source)
    pieces.append(_tail_piece(wanted, wanted.end.offset, wanted.size))
    pieces = [_tail_piece(wanted, p.start, p.stop) if p.is_missing else p for p in pieces]
    return Plan(tuple(_joined(_coalesced(pieces, near))), origins)


def _content(member: Member) -> tuple[int, int, int, int]:
    return member.crc, member.size, member.compressed_size, member.method


def _from_twin(
    member: Member, stop: int, twin: Member, twin_stop: int, source: ByteSource
) -> list[Piece]:
    """Take a member, with its header and what follows its data, from the other wheel."""
    start = member.offset
    head = (twin.name, twin.flags, twin.time, twin.date)
    if (
        head == (member.name, member.flags, member.time, member.date)
        and stop - start == twin_stop - twin.offset
    ):
        return [Piece(start, stop, twin.offset)]
    length = LOCAL_HEADER_SIZE + twin.name_size + _LONGEST_EXTRA
    header = source.read_at(twin.offset, min(length, twin_stop - twin.offset))
    if len(header) < LOCAL_HEADER_SIZE or local_header_size(header) > len(header):
        return [Piece(start, stop)]
    header = header[: local_header_size(header)]
    # Names are known; whatever else the lengths differ by is not.
    size = len(header) + member.name_size - twin.name_size
    data_start = twin.offset + len(header)
    if stop - start - size != twin_stop - data_start:
        return [Piece(start, stop)]
    data = Piece(start + size, stop, data_start)
    made = _made_header(header, member, twin)
    if made is not None:
        return [Piece(start, start + size, data=made), data]
    if member.compressed_size < _WORTH_A_HEADER:
        return [Piece(start, stop)]
    return [Piece(start, start + size), data]


def _made_header(header: bytes, member: Member, twin: Member) -> bytes | None:
    """Change the header of another member into what the one of this member probably is."""
    extra = header[LOCAL_HEADER_SIZE + twin.name_size :]
    if extra and (member.time, member.date) != (twin.time, twin.date):
        return None  # it may hold the time once more
    fields = bytearray(header[:LOCAL_HEADER_SIZE])
    (flags,) = struct.unpack_from("<H", fields, 6)
    struct.pack_into("<H", fields, 6, flags ^ twin.flags ^ member.flags)
    struct.pack_into("<2H", fields, 10, member.time, member.date)
    name = member.name.encode("utf-8")
    struct.pack_into("<H", fields, 26, len(name))
    return bytes(fields) + name + extra


def _tail_piece(wanted: Directory, start: int, stop: int) -> Piece:
    """Take a part from the bytes at hand if it lies there."""
    if start < wanted.tail_start:
        return Piece(start, stop)
    data = wanted.tail[start - wanted.tail_start : stop - wanted.tail_start]
    return Piece(start, stop, data=data)


def _coalesced(pieces: Sequence[Piece], near: int) -> list[Piece]:
    """Let missing parts with little between them be one."""
    result: list[Piece] = []
    last = None  # the place of the last missing one in the result
    for piece in pieces:
        if not piece.is_missing:
            result.append(piece)
            continue
        if last is not None and piece.start - result[last].stop <= near:
            result[last:] = [Piece(result[last].start, piece.stop)]
        else:
            last = len(result)
            result.append(piece)
    return result


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Let neighbours that lie side by side in the other wheel be one, and known bytes too."""
    result: list[Piece] = []
    known: list[Piece] = []

    def settle() -> None:
        if known:
            data = b"".join(piece.data or b"" for piece in known)
            result.append(Piece(known[0].start, known[-1].stop, data=data))
            known.clear()

    for piece in pieces:
        if piece.data is not None:
            known.append(piece)
            continue
        settle()
        last = result[-1] if result else None
        if (
            last is not None
            and last.origin is not None
            and piece.origin == last.origin + last.stop - last.start
        ):
            result[-1] = Piece(last.start, piece.stop, last.origin)
        else:
            result.append(piece)
    settle()
    return result


class Rebuilt:
    """Read a wheel out of the pieces of a plan (a ``ByteSource``).

    :param plan: which bytes come from where.
    :param other: the other wheel.
    :param fetched: has what was missing, at its place in the wheel.
    """

    def __init__(self, plan: Plan, other: ByteSource, fetched: ByteSource) -> None:
        self._pieces = plan.pieces
        self._starts = [piece.start for piece in plan.pieces]
        self._other = other
        self._fetched = fetched
        self.size = plan.pieces[-1].stop
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends."""
        stop = min(start + length, self.size)
        found = []
        place = bisect_right(self._starts, start) - 1
        while start < stop:
            piece = self._pieces[place]
            until = min(stop, piece.stop)
            data = self._read(piece, start, until)
            found.append(data)
            if len(data) != until - start:
                break  # the other wheel was cut off
            start, place = until, place + 1
        return found[0] if len(found) == 1 else b"".join(found)

    def _read(self, piece: Piece, start: int, stop: int) -> bytes:
        if piece.data is not None:
            return piece.data[start - piece.start : stop - piece.start]
        if piece.origin is not None:
            return self._other.read_at(piece.origin + start - piece.start, stop - start)
        return self._fetched.read_at(start, stop - start)

    def close(self) -> None:
        """Do nothing: both files belong to somebody else."""
