"""Requests and responses of a server as values, and responses that many applications share.

An application is a function from `Request` to `Response`. It is independent of sockets, so that it
can be wrapped, recorded and tested without one.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

_PIECE = 1 << 18
# No position in a file has more digits, and Python refuses to convert thousands.
_RANGE = re.compile(r"bytes=(?:([0-9]{1,19})-([0-9]{0,19})|-([0-9]{1,19}))")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal or the direction of text; not tab and line feed."""
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Body(Protocol):
    """The body of a request, read piece by piece."""

    def read(self, size: int = ..., /) -> bytes:
        """Return the next bytes, empty at the end.

        :raises Disconnect: the client went away.
        """


class Disconnect(Exception):
    """Raised to drop the connection without a response, or in the middle of one."""


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request, independent of sockets."""

    method: str
    path: str
    """Path of the target as received, percent-encoded, without query."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By lower-case name."""
    origin: str = ""
    """The server's own origin, such as ``http://127.0.0.1:8080``; never taken from the client."""
    query: str = ""
    body: Body = field(default_factory=io.BytesIO, compare=False)
    """Can be read once."""
    client: str = ""
    """The address of the client; empty: unknown."""
    forwarded_host: str = ""
    """The ``Host`` in the request to a trusted server in front; empty: there is none."""

    @property
    def host(self) -> str:
        """The ``Host`` that the client requested; empty: unknown."""
        return self.forwarded_host or self.headers.get("host", "")


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response, whose body is produced while it is sent."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Without ``Content-Length``."""
    body: Iterable[bytes] = ()
    """The pieces of the body; not read for ``HEAD``."""
    length: int = 0
    """Announced bytes of the body; if it is shorter, the connection is cut."""
    reason: str = ""
    """The reason phrase; publishing tools show nothing else. Empty: that of the status."""

    @classmethod
    def of(cls, status: int, content: bytes, headers: Mapping[str, str]) -> Response:
        """Return a response whose body is in memory."""
        return cls(status, headers, (content,), len(content))

    @classmethod
    def text(cls, status: int, message: str, headers: Mapping[str, str] = _NO_HEADERS) -> Response:
        """Return a response for people, with control characters escaped."""
        content_type = {"content-type": "text/plain; charset=utf-8"}
        escaped = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], message)
        return cls.of(status, f"{escaped}\n".encode(errors="replace"), {**content_type, **headers})


Application: TypeAlias = Callable[[Request], Response]
"""A function from requests to responses; called from several threads at once."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file, read in pieces."""

    path: Path
    start: int
    stop: int

    def __iter__(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(self.start)
            remaining = self.stop - self.start
            while remaining and (piece := file.read(min(remaining, _PIECE))):
                remaining -= len(piece)
                yield piece


def content_response(
    request: Request,
    content: bytes | Callable[[int, int], Iterable[bytes]],
    size: int,
    *,
    etag: str,
    headers: Mapping[str, str],
) -> Response:
    """Answer with content, a range of it, or "not modified" (RFC 9110).

    Several ranges at once are answered with the whole, which is allowed.

    :param content: bytes, or a function that yields the bytes between two positions.
    :param etag: strong entity tag with its quotation marks.
    :param headers: of the response, by lower-case name.
    """
    headers = {**headers, "etag": etag, "accept-ranges": "bytes"}
    if _matches(request.headers.get("if-none-match", ""), etag):
        return Response(304, headers)
    span = None
    if request.headers.get("if-range", etag) == etag:
        span = _span(request.headers.get("range", ""), size)
    start, stop = span or (0, size)
    if span is not None:
        is_empty = start >= stop
        headers["content-range"] = f"bytes {'*' if is_empty else f'{start}-{stop - 1}'}/{size}"
        if is_empty:
            return Response.text(416, "range not satisfiable", headers)
    body: Iterable[bytes] = ()
    if request.method != "HEAD":
        body = (content[start:stop],) if isinstance(content, bytes) else content(start, stop)
    return Response(200 if span is None else 206, headers, body, stop - start)


def accepts_gzip(request: Request) -> bool:
    """Return whether the client accepts gzip."""
    return _has_gzip(request.headers.get("accept-encoding", ""))


@lru_cache(256)
def _has_gzip(accepted: str) -> bool:
    for item in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        if name in ("gzip", "x-gzip"):
            quality = next(
                (parameter[2:] for parameter in parameters if parameter.startswith("q=")), "1"
            )
            return quality.strip("0.") != ""
    return False


def _matches(condition: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in condition.split(",")]
    return etag in tags or "*" in tags


def _span(header: str, size: int) -> tuple[int, int] | None:
    """Read a ``Range`` header; None means the whole, and an empty span that nothing matches."""
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        return max(0, size - int(suffix)), size
    if last and int(last) < int(first):
        return None  # an invalid range is ignored
    return int(first), min(int(last) + 1, size) if last else size


SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}
"""Headers that restrict a browser to showing a response."""


def page_response(
    request: Request, media_type: str, content: bytes, headers: Mapping[str, str]
) -> Response:
    """Answer with a page, a range of it, or "not modified"."""
    charset = "" if media_type.endswith("json") else "; charset=utf-8"
    headers = {**headers, "content-type": media_type + charset}
    return content_response(request, content, len(content), etag=etag_of(content), headers=headers)


def etag_of(content: bytes) -> str:
    """Return a strong entity tag."""
    return f'"{hashlib.sha256(content).hexdigest()}"'


def redirect_to(path: str) -> Response:
    """Return a redirect to the canonical address of a page.

    :param path: relative, because the application may be mounted anywhere.
    """
    return Response.text(301, "moved", {"location": path})


def not_found(message: str = "there is no such page or file") -> Response:
    """Return the response for a missing page or file."""
    return Response.text(404, message)


def not_acceptable() -> Response:
    """Return the response if a page has none of the accepted types."""
    return Response.text(406, "pages are available as JSON and HTML of the Simple API")
