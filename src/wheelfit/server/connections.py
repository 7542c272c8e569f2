"""The limits of each connection, which `uvicorn` leaves to a server in front.

They are for heads that are long or never end, clients that read nothing, and too many connections.
"""

from __future__ import annotations

import re
import socket
import struct
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wheelfit.server.asgi import REASON

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Protocol

    from wheelfit.server.asgi import ClientLimits
else:
    _Protocol = object  # it is of an extra


_DROP = struct.pack("ii", 1, 0)
_LAST_CHANCE = 1.0
"""Seconds in which a connection may still bring its request, once the server stops."""
_LONGEST_REASON = 400
_SOON = "retry-after: 1\r\n"
_KIND = re.compile(rb"[A-Za-z-]{1,24} [/*]")
_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class Connections:
    """The connections of a server and their common limits."""

    def __init__(self, limits: ClientLimits) -> None:
        self.limits = limits
        self.is_stopping = False
        """Whether every answer is the last of its connection."""
        # Dictionaries, for their order: the first has waited longest.
        self.silent: dict[Any, None] = {}
        """Connections without a request so far."""
        self.idle: dict[Any, None] = {}
        """Connections between two requests."""
        self.leaving: set[Any] = set()
        """Connections that were closed to make room, and are still there."""

    def look(self, connections: set[Any]) -> None:
        """Close connections that have stalled."""
        now = time.monotonic()
        for connection in tuple(connections):
            connection.look(now)

    def make_room(self, new: Any) -> None:
        """Close an idle connection if there are too many; if none is idle, the new one.

        Connections without a request so far are closed first: an attacker has many of them.
        """
        if len(new.connections) - len(self.leaving) <= self.limits.connections:
            return
        for waiting in (self.silent, self.idle):
            for one in waiting:
                if not one.transport.get_write_buffer_size():
                    self._close(one)
                    return
        for connection in new.connections:
            # A client that has its answer, and continues to send an ignored body, blocks others.
            if connection is not new and connection.is_answered():
                self._close(connection)
                return
        self.leaving.add(new)
        new.refuse(503, "there are too many connections")

    def _close(self, one: Any) -> None:
        self.busy(one)
        self.leaving.add(one)
        one.transport.close()

    def busy(self, one: Any) -> None:
        """Record that a connection no longer waits for a request."""
        self.silent.pop(one, None)
        self.idle.pop(one, None)

    def gone(self, one: Any) -> None:
        """Record that a connection is closed."""
        self.busy(one)
        self.leaving.discard(one)


class BoundedConnection(_Protocol):
    """One connection with limits, a mixin for uvicorn's."""

    bounds: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set up the connection, and close idle ones if there are too many."""
        super().connection_made(transport)
        # asyncio does so only for sockets with a known protocol; without it the second part of an
        # answer waits for the client to confirm the first one.
        with suppress(OSError):
            connected = transport.get_extra_info("socket")
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head_size = 0
        self.since: float | None = time.monotonic()
        """The time it started to wait for the end of a head; None: it does not wait."""
        self.beside = 0
        """Bytes of chunk headers and trailers since the last byte of a body."""
        self.unsent = 0
        self.stuck_since = time.monotonic()
        self.is_last = self.bounds.is_stopping
        self.bounds.make_room(self)
        if not self.transport.is_closing():
            self.bounds.silent[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the limits."""
        super().connection_lost(exc)
        self.bounds.gone(self)

    def data_received(self, data: bytes) -> None:
        """Count the bytes outside bodies."""
        if self.since is None and self.is_idle():
            self.since = time.monotonic()  # the first bytes of the next request
        if self.since is not None:
            self.head_size += len(data)
        else:
            self.beside += len(data)
        self.latest = data
        super().data_received(data)
        # Bytes behind a head are a body, which is counted there.
        if self.since is not None and self.head_size > self.bounds.limits.head:
            self.refuse(431, "the headers of the request are too large")
        elif self.since is None and self.beside > self.bounds.limits.head:
            self.cut()  # an answer may have begun

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        self.own_size = 0

    def on_url(self, url: bytes) -> None:
        """Add the size of the address."""
        self.own_size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add the size of a header."""
        self.own_size += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Answer a request, unless its head is refused."""
        self.since = None
        self.bounds.busy(self)
        self.head_size = self.beside = 0
        if self.own_size > self.bounds.limits.head:
            self.refuse(431, "the headers of the request are too large")
            return
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self.refuse(400, "this is not an HTTP request")
            return
        super().on_headers_complete()
        if self.scope["method"] == "POST":
            # The answer is written through this transport, since ASGI has no place for a reason.
            self.cycle.transport = _Reasoned(self.transport, self.scope)  # type: ignore[assignment]
        if self.bounds.is_stopping or self.is_last:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Pass on a piece of a body, unless the answer is over."""
        self.beside = 0
        if not self.is_idle():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Pass on the end of a body, unless the answer is over."""
        if not self.is_idle():
            super().on_message_complete()

    def is_idle(self) -> bool:
        """Return whether no request is being answered."""
        cycle: Any = self.cycle  # there is none before the first request
        return cycle is None or cycle.response_complete

    def is_answered(self) -> bool:
        """Return whether all of an answer was sent, and only the body of the request is awaited."""
        cycle: Any = self.cycle
        return (
            cycle is not None
            and cycle.response_started
            and not cycle.response_complete
            and cycle.more_body
            and cycle.expected_content_length == 0
            and not self.transport.is_closing()
        )

    def refuse(self, status: int, sentence: str) -> None:
        """Send an error, and close."""
        if self.transport.is_closing():
            return
        text = f"{sentence}\n".encode()
        head = (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: text/plain; charset=utf-8"
            f"\r\ncontent-length: {len(text)}\r\nconnection: close\r\n"
            f"{_SOON if status == 503 else ''}\r\n"
        )
        self.transport.write(head.encode() + text)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - of the interface
        """Reject malformed HTTP requests, and unknown methods."""
        from httptools import HttpParserInvalidMethodError

        if isinstance(sys.exception(), HttpParserInvalidMethodError) and _KIND.match(self.latest):
            self.refuse(501, "unknown method")
        else:
            self.refuse(400, "this is not an HTTP request")

    def shutdown(self) -> None:
        """Close, after a request that is on its way."""
        self.is_last = True
        if self.is_idle():
            self.loop.call_later(_LAST_CHANCE, self.close_if_idle)
        elif not self.cycle.response_started:
            self.cycle.keep_alive = False  # which the headers of the answer announce

    def on_response_complete(self) -> None:
        """Close after the last answer."""
        super().on_response_complete()
        if self.is_idle() and not self.transport.is_closing():
            self.bounds.idle[self] = None
        if self.is_last and not self.transport.is_closing():
            # The headers of the answer were sent without "close".
            self.loop.call_later(_LAST_CHANCE, self.close_if_idle)

    def close_if_idle(self) -> None:
        """Close it, unless a request arrived meanwhile."""
        if self.is_idle():
            self.transport.close()

    def look(self, now: float) -> None:
        """Close it if it has stalled."""
        left = self.transport.get_write_buffer_size()
        if not left or left != self.unsent:
            self.unsent, self.stuck_since = left, now
        elif now - self.stuck_since > self.bounds.limits.patience:
            self.cut()  # the client does not read
            return
        if self.since is not None and now - self.since > self.bounds.limits.patience:
            if self.transport.is_closing():
                self.cut()
            else:
                self.refuse(408, "the headers of the request did not arrive in time")

    def cut(self) -> None:
        """Close it at once, and drop the data that the kernel has buffered."""
        with suppress(OSError):
            connected = self.transport.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)
        self.transport.abort()


class _Reasoned:
    """A transport that replaces the reason phrase of an answer."""

    def __init__(self, transport: asyncio.Transport, scope: Any) -> None:
        self._transport = transport
        self._scope = scope

    def write(self, data: bytes) -> None:
        """Send bytes; the first are a status line."""
        reason = self._scope.get(REASON)
        if reason is not None and data.startswith(b"HTTP/1.1 "):
            # In ASCII and on one line, since file names and fields may be part of it.
            words = re.sub(r"[^ -~]+", " ", reason)[:_LONGEST_REASON]
            data = data[:13] + words.encode() + data[data.index(b"\r\n") :]
            del self._scope[REASON]
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
