"""Requests for ranges of the bytes of a remote file, and their answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wheelfit_runtime.errors import UnexpectedStatus
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping


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
