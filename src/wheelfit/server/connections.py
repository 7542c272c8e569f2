"""The limits of connections, which `uvicorn` leaves to a server in front.

They apply to long or endless heads, clients that read nothing, and the number of connections.
"""

from __future__ import annotations

import re
import socket
import struct
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from wheelfit.server.asgi import REASON, ClientLimits

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _Protocol

else:
    _Protocol = object  # uvicorn belongs to an extra


_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""The value of ``SO_LINGER`` that waits 0 seconds for the client to confirm sent data."""
_FINAL_WAIT = 1.0
"""Seconds in which a connection may still send a request, once the server stops."""
_LONGEST_REASON = 400
_RETRY_SOON = "retry-after: 1\r\n"
_METHOD = re.compile(rb"[A-Za-z-]{1,24} [/*]")


class Connections:
    """The connections of a server and their common limits."""

    def __init__(self, limits: ClientLimits) -> None:
        self.limits = limits
        self.is_stopping = False
        """Whether every response is the last of its connection."""
        # Dictionaries, for their order: the first has waited longest.
        self.unused: dict[Any, None] = {}
        """Connections that have not sent a request yet."""
        self.idle: dict[Any, None] = {}
        """Connections between two requests."""
        self.closing: set[Any] = set()
        """Connections that were closed to make room, whose end is not confirmed yet."""

    def close_stalled(self, connections: set[Any]) -> None:
        """Close connections that have stalled."""
        now = time.monotonic()
        for connection in tuple(connections):
            connection.close_stalled(now)

    def make_room(self, new: Any) -> None:
        """Close an idle connection if there are too many; if none is idle, the new one.

        Connections that have not sent a request are closed first: an attacker has many of them.
        """
        if len(new.connections) - len(self.closing) <= self.limits.connections:
            return
        for waiting in (self.unused, self.idle):
            for connection in waiting:
                if not connection.transport.get_write_buffer_size():
                    self._close(connection)
                    return
        for connection in new.connections:
            # A client that has its response, and still sends an ignored body, blocks others.
            if connection is not new and connection.is_answered():
                self._close(connection)
                return
        self.closing.add(new)
        new.refuse(503, "there are too many connections")

    def _close(self, connection: Any) -> None:
        self.mark_busy(connection)
        self.closing.add(connection)
        connection.transport.close()

    def mark_busy(self, connection: Any) -> None:
        """Record that a connection no longer waits for a request."""
        self.unused.pop(connection, None)
        self.idle.pop(connection, None)

    def remove(self, connection: Any) -> None:
        """Record that a connection is closed."""
        self.mark_busy(connection)
        self.closing.discard(connection)


class BoundedConnection(_Protocol):
    """One connection with limits, a mixin for uvicorn's."""

    shared: Connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Set up the connection, and close idle ones if there are too many."""
        super().connection_made(transport)
        # asyncio sets it only for sockets with an explicit protocol; without it the second part of
        # a response waits for the client to confirm the first one.
        with suppress(OSError):
            raw_socket = transport.get_extra_info("socket")
            raw_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head_size = 0
        """Bytes received of a head that is not complete yet."""
        self.waiting_since: float | None = time.monotonic()
        """The time it started to wait for the end of a head; None: it does not wait."""
        self.overhead_size = 0
        """Bytes of chunk headers and trailers since the last byte of a body."""
        self.unsent_size = 0
        self.stuck_since = time.monotonic()
        self.is_last = self.shared.is_stopping
        self.shared.make_room(self)
        if not self.transport.is_closing():
            self.shared.unused[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the limits."""
        super().connection_lost(exc)
        self.shared.remove(self)

    def data_received(self, data: bytes) -> None:
        """Count the bytes outside bodies."""
        if self.waiting_since is None and self.is_idle():
            self.waiting_since = time.monotonic()  # the first bytes of the next request
        if self.waiting_since is not None:
            self.head_size += len(data)
        else:
            self.overhead_size += len(data)
        self.latest_data = data
        super().data_received(data)
        # The body behind a head is not counted here, but by `AsgiApplication`.
        if self.waiting_since is not None and self.head_size > self.shared.limits.head_size:
            self.refuse(431, "the headers of the request are too large")
        elif self.waiting_since is None and self.overhead_size > self.shared.limits.head_size:
            self.reset()  # too late for an error: a response may have begun

    def on_message_begin(self) -> None:
        """Start a request."""
        super().on_message_begin()
        self.headers_size = 0
        """Bytes of the address and the headers of the present request, as parsed so far."""

    def on_url(self, url: bytes) -> None:
        """Add the size of the address."""
        self.headers_size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add the size of a header."""
        self.headers_size += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start to answer a request, unless its head is refused."""
        self.waiting_since = None
        self.shared.mark_busy(self)
        self.head_size = self.overhead_size = 0
        if self.headers_size > self.shared.limits.head_size:
            self.refuse(431, "the headers of the request are too large")
            return
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self.refuse(400, "this is not an HTTP request")
            return
        super().on_headers_complete()
        if self.scope["method"] == "POST":
            # The response is written through this transport, since ASGI has no field for a reason.
            self.cycle.transport = _ReasonTransport(self.transport, self.scope)  # type: ignore[assignment]
        if self.shared.is_stopping or self.is_last:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Pass on a piece of a body, unless the response is over."""
        self.overhead_size = 0
        if not self.is_idle():
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Pass on the end of a body, unless the response is over."""
        if not self.is_idle():
            super().on_message_complete()

    def is_idle(self) -> bool:
        """Return whether no request is being answered."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def is_answered(self) -> bool:
        """Return whether a response was sent, and only the body of its request is awaited."""
        cycle: Any = self.cycle
        return (
            cycle is not None
            and cycle.response_started
            and not cycle.response_complete
            and cycle.more_body
            and cycle.expected_content_length == 0
            and not self.transport.is_closing()
        )

    def refuse(self, status: int, message: str) -> None:
        """Send an error, and close."""
        if self.transport.is_closing():
            return
        text, phrase = f"{message}\n".encode(), HTTPStatus(status).phrase
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain; charset=utf-8"
            f"\r\ncontent-length: {len(text)}\r\nconnection: close\r\n"
            f"{_RETRY_SOON if status == 503 else ''}\r\n"
        )
        self.transport.write(head.encode() + text)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - of the interface
        """Reject malformed HTTP requests, and unknown methods."""
        from httptools import HttpParserInvalidMethodError

        is_unknown_method = isinstance(sys.exception(), HttpParserInvalidMethodError)
        if is_unknown_method and _METHOD.match(self.latest_data):
            self.refuse(501, "unknown method")
        else:
            self.refuse(400, "this is not an HTTP request")

    def shutdown(self) -> None:
        """Close the connection after the request that it answers or waits for."""
        self.is_last = True
        if self.is_idle():
            self.loop.call_later(_FINAL_WAIT, self.close_if_idle)
        elif not self.cycle.response_started:
            self.cycle.keep_alive = False  # announced in the headers of the response

    def on_response_complete(self) -> None:
        """Close after the last response."""
        super().on_response_complete()
        if self.is_idle() and not self.transport.is_closing():
            self.shared.idle[self] = None
        if self.is_last and not self.transport.is_closing():
            # The response did not announce "close", so the next request may have been sent.
            self.loop.call_later(_FINAL_WAIT, self.close_if_idle)

    def close_if_idle(self) -> None:
        """Close it, unless a request arrived meanwhile."""
        if self.is_idle():
            self.transport.close()

    def close_stalled(self, now: float) -> None:
        """Close it if it has stalled."""
        buffered = self.transport.get_write_buffer_size()
        if not buffered or buffered != self.unsent_size:
            self.unsent_size, self.stuck_since = buffered, now
        elif now - self.stuck_since > self.shared.limits.io_timeout:
            self.reset()  # the client does not read
            return
        if (
            self.waiting_since is not None
            and now - self.waiting_since > self.shared.limits.io_timeout
        ):
            if self.transport.is_closing():
                self.reset()
            else:
                self.refuse(408, "the headers of the request did not arrive in time")

    def reset(self) -> None:
        """Close it at once, and drop the data that the kernel has buffered."""
        with suppress(OSError):
            raw_socket = self.transport.get_extra_info("socket")
            raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()


class _ReasonTransport:
    """A transport that replaces the reason phrase of a response."""

    def __init__(self, transport: asyncio.Transport, scope: Any) -> None:
        self._transport = transport
        self._scope = scope

    def write(self, data: bytes) -> None:
        """Send bytes; the first are a status line."""
        reason = self._scope.get(REASON)
        if reason is not None and data.startswith(b"HTTP/1.1 "):
            # In ASCII and on one line, since file names and fields may be part of it.
            phrase = re.sub(r"[^ -~]+", " ", reason)[:_LONGEST_REASON]
            data = data[: len("HTTP/1.1 200 ")] + phrase.encode() + data[data.index(b"\r\n") :]
            del self._scope[REASON]
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
