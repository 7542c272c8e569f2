"""Requests and answers of a server as values, and the answers that are alike everywhere.

An application is a function from `Request` to `Answer`. It knows no socket, so
that it can be wrapped, recorded and tested without one.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeAlias

_PIECE = 1 << 18
# No file has more digits, and of thousands Python makes no number.
_RANGE = re.compile(r"bytes=(?:([0-9]{1,19})-([0-9]{0,19})|-([0-9]{1,19}))")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal or the direction of text; not tab and line feed."""
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Body(Protocol):
    """The body of a request, read piece by piece and not kept."""

    def read(self, size: int = ..., /) -> bytes:
        """Return the next bytes, empty at the end.

        :raises Disconnect: the client went away.
        """


class Disconnect(Exception):
    """Raised to drop the connection without an answer, or in the middle of one."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    """``GET``, ``HEAD``, or what changes something: ``POST``, ``PUT``, ``DELETE``."""
    path: str
    """Path of the target as it came, percent-encoded, without query."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By lower-case name."""
    origin: str = ""
    """How the server calls itself, as ``http://127.0.0.1:8080``; never what the client says."""
    query: str = ""
    body: Body = field(default_factory=io.BytesIO, compare=False)
    """What was sent with the request; to be read once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, whose body is produced while it is sent."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Without ``Content-Length``."""
    body: Iterable[bytes] = ()
    """The pieces of the body; nobody takes them for ``HEAD``."""
    length: int = 0
    """Bytes of the body that are announced; if fewer come, the connection is cut."""
    reason: str = ""
    """Stands beside the status; publishing tools show nothing else. Empty: the usual words."""

    @classmethod
    def of(cls, status: int, content: bytes, headers: Mapping[str, str]) -> Answer:
        """Make an answer from a body that is at hand."""
        return cls(status, headers, (content,), len(content))

    @classmethod
    def text(cls, status: int, sentence: str, headers: Mapping[str, str] = _NO_HEADERS) -> Answer:
        """Return an answer for people, with control characters escaped."""
        kind = {"content-type": "text/plain; charset=utf-8"}
        shown = _CONTROL.sub(lambda found: ascii(found[0])[1:-1], sentence)
        return cls.of(status, f"{shown}\n".encode(errors="replace"), {**kind, **headers})


Application: TypeAlias = Callable[[Request], Answer]
"""What answers requests; called from several threads at once."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file, read in pieces."""

    path: Path
    start: int
    stop: int

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(self.start)
            left = self.stop - self.start
            while left and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield piece


def as_asked(
    request: Request,
    content: bytes | Path | Callable[[int, int], Iterable[bytes]],
    size: int,
    *,
    etag: str,
    headers: Mapping[str, str],
) -> Answer:
    """Answer with content, a range of it, or "not modified" (RFC 9110).

    Several ranges at once are answered with the whole, which is allowed.

    :param content: bytes, a file that will be read while it is sent, or a function that
        gives what lies between two positions.
    :param etag: strong entity tag with its quotation marks.
    :param headers: of the answer, by lower-case name.
    """
    headers = {**headers, "etag": etag, "accept-ranges": "bytes"}
    if _matches(request.headers.get("if-none-match", ""), etag):
        return Answer(304, headers)
    span = None
    if request.headers.get("if-range", etag) == etag:
        span = _span(request.headers.get("range", ""), size)
    if span is None:
        return _part(request, 200, content, (0, size), headers)
    start, stop = span
    if start >= stop:
        refusal = {**headers, "content-range": f"bytes */{size}"}
        return Answer.text(416, "there are no such bytes", refusal)
    part = _part(request, 206, content, span, headers)
    described = {**headers, "content-range": f"bytes {start}-{stop - 1}/{size}"}
    return replace(part, headers=described)


def takes_gzip(request: Request) -> bool:
    """Return whether the body of an answer may be packed by gzip."""
    return _names_gzip(request.headers.get("accept-encoding", ""))


@lru_cache(256)
def _names_gzip(accepted: str) -> bool:
    for wish in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in wish.split(";"))
        if name in ("gzip", "x-gzip"):
            quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
            return quality.strip("0.") != ""
    return False


def _part(
    request: Request,
    status: int,
    content: bytes | Path | Callable[[int, int], Iterable[bytes]],
    span: tuple[int, int],
    headers: Mapping[str, str],
) -> Answer:
    start, stop = span
    body: Iterable[bytes]
    if request.method == "HEAD":
        body = ()
    elif isinstance(content, bytes):
        body = (content[start:stop],)
    elif isinstance(content, Path):
        body = FilePart(content, start, stop)
    else:
        body = content(start, stop)
    return Answer(status, headers, body, stop - start)


def _matches(condition: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in condition.split(",")]
    return etag in tags or "*" in tags


def _span(header: str, size: int) -> tuple[int, int] | None:
    """Read a ``Range`` header; None means the whole, an empty span that there is nothing."""
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return max(0, size - int(suffix)), size
    if last and int(last) < int(first):
        return None  # not a range at all; to be ignored
    return int(first), min(int(last) + 1, size) if last else size


STRICT = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
"""Headers by which no browser does anything with an answer but show it, whoever wrote it."""


def page_answer(
    request: Request, media_type: str, content: bytes, headers: Mapping[str, str]
) -> Answer:
    """Answer with a page, or with less where that is asked for."""
    charset = "" if media_type.endswith("json") else "; charset=utf-8"
    headers = {**headers, "content-type": media_type + charset}
    return as_asked(request, content, len(content), etag=etag_of(content), headers=headers)


def etag_of(content: bytes) -> str:
    """Return a strong entity tag."""
    return f'"{hashlib.sha256(content).hexdigest()}"'


def moved(path: str) -> Answer:
    """Send somebody to the one address of a page.

    :param path: relative: below which address all this is mounted nobody here knows.
    """
    return Answer.text(301, "see there", {"location": path})


def missing(why: str = "there is no such page or file") -> Answer:
    """Return an answer that there is nothing."""
    return Answer.text(404, why)


def unacceptable() -> Answer:
    """Return an answer that a page has none of the types that were named."""
    return Answer.text(406, "pages can be had as JSON and HTML of the Simple API")
