"""Listen for connections, let `uvicorn` serve them, and stop so that nobody is cut off.

The only importer of `uvicorn`, with `wheelfit.server.connections`.
"""

from __future__ import annotations

import errno
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit.errors import InvalidConfiguration, NeedsExtra
from wheelfit.server.connections import BoundedConnection, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.server.asgi import AsgiApplication, Limits


__all__ = ["listen_at", "listen_on", "origin_of", "serve"]


def __dir__() -> list[str]:
    return __all__


_BACKLOG = 2048


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
            hint="choose another --port"
            if error.errno in (errno.EADDRINUSE, errno.EACCES)
            else "--host is an address of this machine, as 127.0.0.1",
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
    give_up: Callable[[], None] = lambda: None,
) -> None:
    """Serve until the process is asked to end (SIGTERM, SIGINT), then finish what is begun.

    :param application: answers.
    :param listener: where connections come in.
    :param limits: what connections may take.
    :param ready: called once they are answered.
    :param stop_within: seconds that are left to requests that are under way at the end.
    :param give_up: called after that: breaks off what threads may still wait for.
    :raises NeedsExtra: the libraries are not installed.
    """
    try:
        import uvicorn  # noqa: PLC0415 - an extra
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415
    except ImportError as error:
        raise NeedsExtra("server", error.name or "uvicorn") from None

    shared = Bounds(limits)
    # The server's own words are about its inner life; what counts is told by the application.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    class Connection(BoundedConnection, HttpToolsProtocol):
        """One connection of this server."""

        bounds = shared

    class Server(uvicorn.Server):
        """A server that looks after its connections."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def on_tick(self, counter: int) -> bool:
            if counter % 10 == 0:
                shared.look(self.server_state.connections)
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            shared.is_stopping = True
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
        give_up()
        application.close()
