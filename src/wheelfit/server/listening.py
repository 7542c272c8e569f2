"""Listen for connections, serve them by `uvicorn`, and stop gracefully.

The only importer of `uvicorn`, with `wheelfit.server.connections`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wheelfit.errors import NeedsExtra
from wheelfit.server.connections import BoundedConnection, Connections
from wheelfit_runtime.errors import InvalidConfiguration, os_reason
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.server.asgi import AsgiApplication, ClientLimits


_BACKLOG = 2048
"""Connections that may wait in the kernel to be accepted."""
_ACCEPT_BATCH = 32
"""Connections that are accepted before the server checks whether there are too many."""
_RESERVED_FILES = 256
"""Open files that no connection may take: for the database, storages, upstreams and uploads."""
_FILES_PER_CONNECTION = 2
"""Open files of one connection: its own, and the file that is sent."""


def listen_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    :param port: 0 takes a free one.
    :raises InvalidConfiguration: it cannot listen there.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidConfiguration(
            f"the server cannot listen at this address: {os_reason(error)}",
            where=f"{host}:{port}",
            hint="choose another --port"
            if error.errno in (errno.EADDRINUSE, errno.EACCES)
            else "--host is an address of this machine, as 127.0.0.1",
        ) from None
    return listener


def listen_on(descriptor: int) -> socket.socket:
    """Return a socket that another process has opened, and that stays open when this one ends."""
    with suppress(OSError, OverflowError):
        listener = socket.socket(fileno=descriptor)
        if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return listener
        listener.close()
    raise InvalidConfiguration("this is not a listening socket", where=f"descriptor {descriptor}")


def origin_of(listener: socket.socket) -> str:
    """Return the origin of a server; empty if it has no address for URLs."""
    if listener.family == socket.AF_INET:
        host, port = listener.getsockname()
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # noqa: S104
    if listener.family == socket.AF_INET6:
        host, port = listener.getsockname()[:2]
        return f"http://[{'::1' if host == '::' else host}]:{port}"
    return ""


def raise_file_limit(needed: int) -> int | None:
    """Return the soft limit of open files, raised to the hard one or `needed`; None: no limit."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    # macOS calls its hard limit infinite, and refuses an infinite soft limit.
    limit = max(soft, needed) if hard == resource.RLIM_INFINITY else hard
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        soft = limit
    return soft


def max_connections(files: int) -> int:
    """Return the most connections with which a process never runs out of open files.

    >>> max_connections(1024), max_connections(4256), max_connections(64)
    (384, 2000, 16)
    """
    return max(1, (files - min(_RESERVED_FILES, files // 2)) // _FILES_PER_CONNECTION)


class _LoopErrors:
    """The errors of an event loop, reported together: there may be thousands in a second."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._counts: Counter[str] = Counter()

    def __call__(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Count an error: an exception handler of an event loop."""
        error = context.get("exception")
        if isinstance(error, OSError):
            reason = os_reason(error)
        else:
            reason = type(error).__name__ if error is not None else ""
        event = "no connection can be accepted" if "socket" in context else context["message"]
        self._counts[f"{event}: {reason}" if reason else str(event)] += 1

    def report(self) -> None:
        """Report the errors since the last report, by the most frequent one."""
        if self._counts:
            message, _ = self._counts.most_common(1)[0]
            self._note(f"{message} ({count_of(self._counts.total(), 'time')})")
            self._counts.clear()


def serve(
    application: AsgiApplication,
    listener: socket.socket,
    limits: ClientLimits,
    *,
    ready: Callable[[], None],
    shutdown_timeout: int = 60,
    cancel: Callable[[], None] = lambda: None,
    note: Callable[[str], None] = lambda _text: None,
) -> None:
    """Serve until the process receives a signal (SIGTERM, SIGINT), then finish running requests.

    :param ready: called once requests are answered.
    :param shutdown_timeout: seconds for running requests at the end.
    :param cancel: called after that; aborts calls that threads still wait for.
    :param note: called with messages about connections for the operator, at most once a second.
    """
    try:
        import uvicorn
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError as error:
        raise NeedsExtra("server", error.name or "uvicorn") from None

    needed = limits.connections * _FILES_PER_CONNECTION + _RESERVED_FILES
    files = raise_file_limit(needed)
    if files is not None and (limit := max_connections(files)) < limits.connections:
        note(
            f"at most {limit} connections are accepted instead of {limits.connections}, because "
            f"this process may open {files} files; allow it {needed} (ulimit -n {needed}, or "
            f"LimitNOFILE={needed} in a systemd unit)"
        )
        limits = replace(limits, connections=limit)
    connections = Connections(limits)
    errors = _LoopErrors(note)
    # The application has its own log.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    class Connection(BoundedConnection, HttpToolsProtocol):
        """A connection of this server."""

        shared = connections

    class Server(uvicorn.Server):
        """A server that checks its connections."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().set_exception_handler(errors)
            await super().startup(sockets)
            for listening_socket in sockets or ():
                listening_socket.listen(_BACKLOG)  # more than asyncio accepts at once
            if self.started:
                ready()

        async def on_tick(self, counter: int) -> bool:
            if counter % 10 == 0:
                connections.close_stalled(self.server_state.connections)
                errors.report()
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            connections.is_stopping = True
            await super().shutdown(sockets)
            # A signal to stop was received and obeyed: that is success.
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
        timeout_keep_alive=limits.idle_timeout,
        timeout_graceful_shutdown=shutdown_timeout,
        backlog=_ACCEPT_BATCH,
    )
    try:
        Server(config).run([listener])
    finally:
        cancel()
        application.close()
