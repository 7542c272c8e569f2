"""Read a few files of a remote wheel without fetching the wheel.

`dist_info_reader` is a generator without I/O: it yields ranges of bytes and is sent their parts.
`read_members` drives it with a function that fetches one range. The first request is for the end of
the file, so no HEAD request is needed: the answer has the size. It usually contains the end of the
central directory with the entries of dist-info, which come last in most wheels, and often the files
themselves, so one or two requests are enough, without the whole directory of a wheel with thousands
of members.

Raises `RangeUnsupported` if the server does not support ranges, `UnexpectedStatus` if the file
changed meanwhile or other bytes came than requested, `InvalidWheel` if the wheel is not valid.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.wheels.dist_info import MAX_METADATA_SIZE, dist_info_folder
from wheelfit.wheels.inflate import inflate_whole
from wheelfit.wheels.zip_directory import (
    LOCAL_HEADER_SIZE,
    LONGEST_DESCRIPTOR,
    Member,
    check_local_header,
    check_trailer,
    find_end,
    following_offsets,
    local_header_size,
    parse_directory,
    parse_directory_tail,
)
from wheelfit_runtime.errors import InvalidWheel, UnexpectedStatus
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from wheelfit.core.filename import WheelFilename


_T = TypeVar("_T")

FIRST_REQUEST = 1 << 16
"""Bytes requested at first, from the end of the file."""

_MAX_GAP = 48 << 10  # two spans with a gap up to this are one request
_LATER_MAX_GAP = 1 << 20  # the same after two requests
_SLACK = 1 << 12  # room for the extra field of a local header, of unknown size
_MAX_MEMBER_SIZE = 64 << 20
_MAX_SIZES = {"METADATA": MAX_METADATA_SIZE, "variant.json": DEFAULT_LIMITS.size}  # F-30


class RangeUnsupported(Exception):
    """Raised when a server does not send ranges of a file; the caller then fetches all of it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Suffix:
    """A request for the last bytes of a file."""

    length: int
    """The number of bytes; a shorter file is sent as a whole."""

    @property
    def header(self) -> str:
        """The value of the ``Range`` header."""
        return f"bytes=-{self.length}"


@dataclass(frozen=True, slots=True)
class Span:
    """A request for bytes ``start`` to ``stop``, the latter not included."""

    start: int
    stop: int

    @property
    def header(self) -> str:
        """The value of the ``Range`` header."""
        return f"bytes={self.start}-{self.stop - 1}"


Range: TypeAlias = Suffix | Span


@dataclass(frozen=True, slots=True)
class Extent:
    """The range of bytes in an answer."""

    start: int
    stop: int
    total: int
    """Bytes of the whole file."""
    validator: str = ""
    """Strong ``ETag`` or ``Last-Modified``; empty if there is none."""


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A part of a file."""

    extent: Extent
    data: bytes


_CONTENT_RANGE = pattern(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
# The statuses of servers that do not support ranges, or (416) no suffix ranges as ``bytes=-500``.
_NO_RANGES = frozenset([200, 400, 405, 416, 501])


def announced_extent(
    request: Range, status: int, headers: Mapping[str, str], *, where: str
) -> Extent:
    """Return the range of an answer from its status and headers, before reading its bytes.

    :param headers: the headers; names in lower case, or a mapping that ignores case.
    :raises RangeUnsupported: the server does not support ranges; its body, if any, is the whole
        file.
    :raises UnexpectedStatus: the answer has another status, or other bytes than requested.
    """
    if status in _NO_RANGES:
        raise RangeUnsupported(f"the server answered a range request with status {status}")
    if status != 206:
        raise UnexpectedStatus(
            f"the server answered a range request with status {status}", status=status, where=where
        )
    if headers.get("content-encoding", "identity") != "identity":
        raise RangeUnsupported("the server sends ranges of an encoded file")
    if headers.get("content-type", "").startswith("multipart/byteranges"):
        raise RangeUnsupported("the server answers a range request in several pieces")
    content_range = headers.get("content-range", "")
    match = _CONTENT_RANGE.fullmatch(content_range.strip())
    if match is None:
        raise RangeUnsupported(f"the server sends an invalid Content-Range: {content_range!r}")
    first, last, total = map(int, match.groups())
    if isinstance(request, Suffix):
        expected = (max(0, total - request.length), total)
    else:
        expected = (request.start, min(request.stop, total))
    if (first, last + 1) != expected:
        raise UnexpectedStatus(
            f"the server sent other bytes than requested: {content_range!r} for {request.header!r}",
            status=status,
            where=where,
        )
    etag = headers.get("etag", "")
    strong = "" if etag.startswith("W/") else etag
    return Extent(first, last + 1, total, strong or headers.get("last-modified", ""))


def read_members(
    fetch: Callable[[Range], RemotePart],
    names: Iterable[str],
    *,
    filename: WheelFilename,
    where: str,
) -> dict[str, bytes]:
    """Read files out of the dist-info folder of a remote wheel.

    Takes at most three requests, unless the files are more than 1 MiB apart.

    :param fetch: fetches the bytes of a range, with the help of `announced_extent`.
    :return: the content of the existing files.
    """
    return _run_reader(dist_info_reader(names, filename=filename, where=where), fetch)


def read_sizes(fetch: Callable[[Range], RemotePart], *, where: str) -> tuple[int, int]:
    """Return the sizes of a remote wheel, packed and unpacked.

    Takes at most two requests, for the central directory.
    """
    return _run_reader(_size_reader(where), fetch)


def _run_reader(
    reader: Generator[Range, RemotePart, _T], fetch: Callable[[Range], RemotePart]
) -> _T:
    """Fetch the ranges a reader yields, and return its result."""
    try:
        request = next(reader)
        while True:
            request = reader.send(fetch(request))
    except StopIteration as stop:
        result: _T = stop.value
        return result


def _size_reader(where: str) -> Generator[Range, RemotePart, tuple[int, int]]:
    first_part = yield Suffix(FIRST_REQUEST)
    parts = _ReceivedParts(first_part, where)
    end = find_end(parts.tail, parts.total, where=where)
    directory_span = Span(end.offset, end.stop)
    yield from parts.fetch([directory_span])
    members = parse_directory(parts.read(directory_span), end, where=where)
    return parts.total, sum(member.size for member in members)


def dist_info_reader(
    names: Iterable[str], *, filename: WheelFilename, where: str
) -> Generator[Range, RemotePart, dict[str, bytes]]:
    """Yield ranges to fetch, receive each part, and return the existing files of dist-info."""
    file_names = tuple(names)
    first_part = yield Suffix(FIRST_REQUEST)
    parts = _ReceivedParts(first_part, where)
    end = find_end(parts.tail, parts.total, where=where)

    directory_span = Span(end.offset, end.stop)
    if parts.includes(directory_span):
        members = parse_directory(parts.read(directory_span), end, where=where)
    else:
        members = parse_directory_tail(parts.end_of(directory_span), where=where)
    chosen = _choose(members, file_names, filename, where)
    if len(chosen) < len(file_names) and len(members) < end.count:
        # A file is absent, or not at the end: the whole directory is needed.
        yield from parts.fetch([directory_span])
        members = parse_directory(parts.read(directory_span), end, where=where)
        chosen = _choose(members, file_names, filename, where)

    following_offset = following_offsets(members, end)
    is_whole = len(members) == end.count
    yield from parts.fetch(
        [
            Span(member.offset, min(following_offset[member.offset], _likely_stop(member)))
            for member in chosen.values()
        ]
    )
    contents = {}
    for name, member in chosen.items():
        following = following_offset[member.offset]
        if following - member.offset < LOCAL_HEADER_SIZE:
            raise InvalidWheel(f"{member.name!r} overlaps what follows it", where=where)
        span = Span(member.offset, member.offset + LOCAL_HEADER_SIZE)
        length = local_header_size(parts.read(span))
        start = member.offset + length
        stop = start + member.compressed_size
        gap = following - stop
        # If not all members are known, others may lie in the gap: only an overlap is refused.
        checks_gap = is_whole or gap < 0
        trailer_size = min(max(gap, 0), LONGEST_DESCRIPTOR) if checks_gap else 0
        trailer = Span(stop, stop + trailer_size)
        # Fetches nothing, unless the header has a huge extra field.
        yield from parts.fetch([Span(member.offset, min(trailer.stop, following))])
        header = check_local_header(
            parts.read(Span(member.offset, min(start, following))), member, where=where
        )
        if checks_gap:
            check_trailer(header, member, parts.read(trailer), gap, where=where)
        contents[name] = inflate_whole(
            member, parts.read(Span(start, stop)), where=where, library=zlib
        )
    return contents


def _choose(
    members: Sequence[Member], names: Sequence[str], filename: WheelFilename, where: str
) -> dict[str, Member]:
    """Return the members with some names in dist-info, by name."""
    folder = dist_info_folder((member.name for member in members), filename, where=where)
    if folder is None:
        return {}
    chosen: dict[str, Member] = {}
    paths = {f"{folder}/{name}": name for name in names}
    for member in members:
        if (name := paths.get(member.name)) is None:
            continue
        if name in chosen:
            raise InvalidWheel(f"{member.name!r} exists twice", where=where)
        limit = _MAX_SIZES.get(name, _MAX_MEMBER_SIZE)
        if max(member.size, member.compressed_size) > limit:
            raise InvalidWheel(f"{member.name!r} has {member.size} bytes", where=where)
        chosen[name] = member
    return chosen


def _likely_stop(member: Member) -> int:
    return member.offset + LOCAL_HEADER_SIZE + member.name_size + member.compressed_size + _SLACK


class _ReceivedParts:
    """The parts received, and the requests for missing ones."""

    def __init__(self, first: RemotePart, where: str) -> None:
        self._where = where
        self._parts: list[RemotePart] = []
        self._add(first)
        self.total = first.extent.total
        """Bytes of the whole file."""

    def _add(self, part: RemotePart) -> None:
        """Add a part; all parts must be of the same version of the file."""
        extent = part.extent
        if len(part.data) != extent.stop - extent.start:
            raise UnexpectedStatus(
                f"the answer has {count_of(len(part.data), 'byte')} instead of "
                f"{extent.stop - extent.start}",
                status=206,
                where=self._where,
            )
        if self._parts:
            first = self._parts[0].extent
            if (extent.total, extent.validator) != (first.total, first.validator):
                raise UnexpectedStatus(
                    "the file changed on the server while it was read",
                    status=206,
                    where=self._where,
                    hint="try again",
                )
        self._parts.append(part)

    @property
    def tail(self) -> bytes:
        """The end of the file: the first part."""
        return self._parts[0].data

    def end_of(self, span: Span) -> bytes:
        """Return the last bytes of a span, as far as `tail` has them."""
        return self.read(Span(max(span.start, self._parts[0].extent.start), span.stop))

    def includes(self, span: Span) -> bool:
        """Return whether every byte of a span was received."""
        position = span.start
        while position < span.stop:
            stops = [
                part.extent.stop
                for part in self._parts
                if part.extent.start <= position < part.extent.stop
            ]
            if not stops:
                return False
            position = max(stops)
        return True

    def fetch(self, spans: Iterable[Span]) -> Generator[Range, RemotePart, None]:
        """Yield the ranges missing from some spans; near ones in one request."""
        max_gap = _MAX_GAP if len(self._parts) < 2 else _LATER_MAX_GAP
        missing: list[Span] = []
        for span in sorted(spans, key=lambda span: span.start):
            if self.includes(span):
                continue
            if missing and span.start - missing[-1].stop <= max_gap:
                missing[-1] = Span(missing[-1].start, max(missing[-1].stop, span.stop))
            else:
                missing.append(span)
        for span in missing:
            tail = self._parts[0].extent  # received, up to the end of the file
            stop = tail.start if span.start < tail.start < span.stop else span.stop
            part = yield Span(span.start, stop)
            self._add(part)
            if not self.includes(span):
                raise UnexpectedStatus(
                    "the server sent other bytes than requested", status=206, where=self._where
                )

    def read(self, span: Span) -> bytes:
        """Return bytes that were received."""
        pieces = []
        position = span.start
        while position < span.stop:
            part = max(
                (part for part in self._parts if part.extent.start <= position < part.extent.stop),
                key=lambda part: part.extent.stop,
            )
            offset = position - part.extent.start
            piece = part.data[offset : offset + span.stop - position]
            pieces.append(piece)
            position += len(piece)
        return b"".join(pieces)
