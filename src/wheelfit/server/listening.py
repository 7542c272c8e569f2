"""Listen for connections, bound what each may take, and stop so that nobody is cut off.

The only importer of `uvicorn`. What it leaves to a server in front is done here: heads that are
long or never end, clients that read nothing, too many connections.
"""

from __future__ import annotations

import logging
import re
import socket
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wheelfit.errors import InvalidConfiguration, NeedsExtra
from wheelfit.server.asgi import REASON

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from wheelfit.server.asgi import AsgiApplication, Limits


__all__ = ["listen_at", "listen_on", "origin_of", "serve"]


def __dir__() -> list[str]:
    return __all__


_BACKLOG = 2048
_DROP = struct.pack("ii", 1, 0)
_LAST_CHANCE = 1.0
"""Seconds in which a connection may still bring its request, once the server stops."""


def listen_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    :param host: a name or an address.
    :param port: 0 takes a free one.
    :raises InvalidConfiguration: that cannot be.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidConfiguration(
            f"nothing can be served there: {error.strerror or type(error).__name__}",
            where=f"{host}:{port}",
            hint="choose another --port",
        ) from None
    return listener


def listen_on(number: int) -> socket.socket:
    """Return a socket that another process has made, and that stays open when this one ends.

    :param number: of its file descriptor.
    :raises InvalidConfiguration: it is no socket that listens.
    """
    with suppress(OSError, OverflowError):
        listener = socket.socket(fileno=number)
        if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return listener
        listener.close()
    raise InvalidConfiguration("this is no socket that listens", where=f"descriptor {number}")


def origin_of(listener: socket.socket) -> str:
    """Return what URLs of a server begin with; empty if it has no address that one could name."""
    if listener.family == socket.AF_INET:
        host, port = listener.getsockname()
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104
    if listener.family == socket.AF_INET6:
        host, port = listener.getsockname()[:2]
        return f"http://[{'::1' if host == '::' else host}]:{port}"
    return ""


def serve(
    application: AsgiApplication,
    listener: socket.socket,
    limits: Limits,
    *,
    ready: Callable[[], None],
    stop_within: int = 60,
) -> None:
    """Serve until the process is asked to end (SIGTERM, SIGINT), then finish what is begun.

    :param application: answers.
    :param listener: where connections come in.
    :param limits: what connections may take.
    :param ready: called once they are answered.
    :param stop_within: seconds that are left to requests that are under way at the end.
    :raises NeedsExtra: the libraries are not installed.
    """
    try:
        import uvicorn  # noqa: PLC0415 - an extra
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415
    except ImportError as error:
        raise NeedsExtra("server", error.name or "uvicorn") from None

    bounds = _Bounds(limits)
    # The server's own words are about its inner life; what counts is told by the application.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    class Connection(HttpToolsProtocol):
        """One connection, with bounds."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            # asyncio does so only for sockets that know their protocol; without it the second
            # part of an answer waits for the client to confirm the first one.
            with suppress(OSError):
                connected = transport.get_extra_info("socket")
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.head_size = 0
            self.since: float | None = time.monotonic()
            """When it began to wait for the end of a head; None: it does not."""
            self.beside = 0
            """Bytes since the last of a body: of chunk headers and trailers."""
            self.unsent = 0
            self.stuck_since = time.monotonic()
            self.is_last = bounds.is_stopping
            bounds.make_room(self)

        def data_received(self, data: bytes) -> None:
            if self.since is None and self.is_idle():
                self.since = time.monotonic()  # the first bytes of the next request
            if self.since is not None:
                self.head_size += len(data)
            else:
                self.beside += len(data)
            super().data_received(data)
            # Whatever came behind a head is a body, and counts there.
            if self.since is not None and self.head_size > limits.head:
                self.refuse(431, "the head of the request is too large")
            elif self.since is None and self.beside > limits.head:
                self.cut()  # an answer may have begun

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.own_size = 0

        def on_url(self, url: bytes) -> None:
            self.own_size += len(url)
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self.own_size += len(name) + len(value) + 4
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self.since = None
            self.head_size = self.beside = 0
            if self.own_size > limits.head:
                self.refuse(431, "the head of the request is too large")
                return
            if self.parser.get_http_version() not in ("1.0", "1.1"):
                self.refuse(400, "this is no HTTP request")
                return
            super().on_headers_complete()
            if self.scope["method"] == "POST":
                # What it answers with goes through here, and ASGI has no place for a reason.
                self.cycle.transport = _Reasoned(self.transport, self.scope)  # type: ignore[assignment]
            if bounds.is_stopping or self.is_last:
                self.cycle.keep_alive = False

        def on_body(self, body: bytes) -> None:
            self.beside = 0
            if not self.is_idle():
                super().on_body(body)

        def on_message_complete(self) -> None:
            if not self.is_idle():
                super().on_message_complete()

        def is_idle(self) -> bool:
            """Tell whether no request is being answered."""
            cycle: Any = self.cycle  # there is none before the first request
            return cycle is None or cycle.response_complete

        def refuse(self, status: int, sentence: str) -> None:
            """Say why, and close."""
            if self.transport.is_closing():
                return
            text = f"{sentence}\n".encode()
            head = (
                f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: text/plain; charset=utf-8"
                f"\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + text)
            self.transport.close()

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - of the interface
            self.refuse(400, "this is no HTTP request")

        def shutdown(self) -> None:
            """Let a request come that is on its way, and close behind it."""
            self.is_last = True
            if self.is_idle():
                self.loop.call_later(_LAST_CHANCE, self.close_if_idle)
            elif not self.cycle.response_started:
                self.cycle.keep_alive = False  # which the answer says

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.is_last and not self.transport.is_closing():
                # The answer had begun, and did not say that it is the last.
                self.loop.call_later(_LAST_CHANCE, self.close_if_idle)

        def close_if_idle(self) -> None:
            """Close it, unless a request came meanwhile."""
            if self.is_idle():
                self.transport.close()

        def look(self, now: float) -> None:
            """End it if nothing moves."""
            left = self.transport.get_write_buffer_size()
            if not left or left != self.unsent:
                self.unsent, self.stuck_since = left, now
            elif now - self.stuck_since > limits.patience:
                self.cut()  # nobody reads
                return
            if self.since is not None and now - self.since > limits.patience:
                if self.transport.is_closing():
                    self.cut()
                else:
                    self.refuse(408, "the head of the request does not arrive")

        def cut(self) -> None:
            """End it at once; what the kernel still has of it is dropped too."""
            with suppress(OSError):
                connected = self.transport.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)
            self.transport.abort()

    class Server(uvicorn.Server):
        """A server that looks after its connections."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def on_tick(self, counter: int) -> bool:
            if counter % 10 == 0:
                bounds.look(self.server_state.connections)
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            bounds.is_stopping = True
            await super().shutdown(sockets)
            # It was asked to end, and does: that is success.
            self._captured_signals.clear()

    config = uvicorn.Config(
        application,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.idle,
        timeout_graceful_shutdown=stop_within,
        backlog=_BACKLOG,
    )
    try:
        Server(config).run([listener])
    finally:
        application.close()


_PHRASES = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class _Reasoned:
    """Put other words beside the status of an answer; otherwise, the transport.

    :param transport: where it goes.
    :param scope: of the request; may have the words.
    """

    def __init__(self, transport: asyncio.Transport, scope: Any) -> None:
        self._transport = transport
        self._scope = scope

    def write(self, data: bytes) -> None:
        """Send bytes; the first are a status line."""
        reason = self._scope.get(REASON)
        if reason is not None and data.startswith(b"HTTP/1.1 "):
            # In ASCII and on one line, whatever file names and fields are in it.
            words = re.sub(r"[^ -~]+", " ", reason)[:_LONGEST_REASON]
            data = data[:13] + words.encode() + data[data.index(b"\r\n") :]
            del self._scope[REASON]
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_LONGEST_REASON = 400


class _Bounds:
    """Look after all connections together."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.is_stopping = False

    def look(self, connections: set[Any]) -> None:
        """End connections on which nothing moves."""
        now = time.monotonic()
        for one in tuple(connections):
            one.look(now)

    def make_room(self, new: Any) -> None:
        """Close an idle connection if there are too many; if none is idle, the new one."""
        if len(new.connections) <= self._limits.connections:
            return
        idle = [
            one
            for one in new.connections
            if one is not new and one.is_idle() and not one.transport.is_closing()
        ]
        if idle:
            min(idle, key=lambda one: one.stuck_since).transport.close()
        else:
            new.refuse(503, "there are too many connections")
