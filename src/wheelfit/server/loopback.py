"""A small HTTP server for this machine only, and an index of a folder on it.

It uses the standard library alone, and has a thread for each connection.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import SECURITY_HEADERS, Application, Disconnect, Request, Response
from wheelfit.server.rebinding_guard import RebindingGuard

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self


_HOST = "127.0.0.1"
_TIMEOUT = 60.0
_MAX_CONNECTIONS = 500
_RETRY_PAUSE = 0.1
_LINE_ENDS = frozenset("\r\n")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class LoopbackServer:
    """A server of an application on a free port of the loopback interface.

    A context manager that closes every connection and ends every thread.

    >>> from urllib.request import urlopen
    >>> with LoopbackServer(lambda request: Response.text(200, request.path)) as server:
    ...     urlopen(server.origin + "/hello").read().decode().strip()
    '/hello'

    :param port: 0 takes a free one.
    :param timeout: seconds for a head, and for a client to read the next bytes of a response.
    :param max_connections: connections at once; further ones are closed.
    """

    def __init__(
        self,
        application: Application,
        *,
        host: str = _HOST,
        port: int = 0,
        timeout: float = _TIMEOUT,
        max_connections: int = _MAX_CONNECTIONS,
    ) -> None:
        self._server = _Server(application, host, port, timeout, max_connections)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="loopback"
        )

    @property
    def origin(self) -> str:
        """The origin of every URL, such as ``http://127.0.0.1:8080``."""
        return self._server.origin

    @property
    def failures(self) -> tuple[Exception, ...]:
        """Unexpected exceptions of the application; each was answered with 500."""
        return tuple(self._server.failures)

    def start(self) -> None:
        """Start the thread that answers requests."""
        self._thread.start()

    def close(self) -> None:
        """Stop, close every connection, and wait for the threads."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.close_connections()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LoopbackIndex(LoopbackServer):
    """A server of the wheels of a folder as an index.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from urllib.request import urlopen
    >>> from wheelfit.testing.wheels import build_wheel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = build_wheel(Path(folder), "some", "1.0")
    ...     with LoopbackIndex(Path(folder)) as index:
    ...         path.name.encode() in urlopen(index.url + "some/").read()
    True
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(RebindingGuard(FolderIndex(folder)))

    @property
    def url(self) -> str:
        """The URL to give to an installer."""
        return f"{self.origin}/simple/"


class _Server(ThreadingHTTPServer):
    # close() waits for the threads, which end when close_connections() ends their connections.
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(
        self,
        application: Application,
        host: str,
        port: int,
        io_timeout: float,
        max_connections: int,
    ) -> None:
        self.application = application
        self.io_timeout = io_timeout
        self._max_connections = max_connections
        self.failures: list[Exception] = []
        self.origin = ""
        self._connections: set[socket.socket] = set()
        self._to_reset: set[socket.socket] = set()
        self._waiting: dict[socket.socket, float] = {}
        """Connections that wait for the head of a request, with the time they started."""
        self._last_check = 0.0
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which resolves the name of 127.0.0.1.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.origin = f"http://{self.server_name}:{self.server_port}"

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            connection, address = super().get_request()
        except OSError:
            # The caller tries again at once, in vain while this process can open no file.
            time.sleep(_RETRY_PAUSE)
            raise
        self._connections.add(connection)
        return connection, address

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        return len(self._connections) <= self._max_connections

    def start_waiting(self, connection: socket.socket) -> None:
        """Record that a connection waits for the head of a request."""
        self._waiting[connection] = time.monotonic()

    def stop_waiting(self, connection: socket.socket) -> None:
        """Record that a connection has received the head of a request."""
        self._waiting.pop(connection, None)

    def service_actions(self) -> None:
        """Close connections that send a head too slowly; called by `serve_forever`."""
        now = time.monotonic()
        if now - self._last_check < 1:
            return
        self._last_check = now
        for connection, since in tuple(self._waiting.items()):
            if now - since > self.io_timeout:
                self._waiting.pop(connection, None)
                _shut_down(connection)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        self._waiting.pop(request, None)
        if request in self._to_reset:
            self._to_reset.discard(request)
            # No lingering: the client sees a reset, not an orderly end.
            request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def reset_later(self, connection: socket.socket) -> None:
        """Reset a connection when its thread has finished."""
        self._to_reset.add(connection)

    def close_connections(self) -> None:
        """Close every connection."""
        for connection in tuple(self._connections):
            _shut_down(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "wheelfit"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        self.request.settimeout(self.server.io_timeout)
        super().setup()

    def handle_one_request(self) -> None:
        self.server.start_waiting(self.connection)
        super().handle_one_request()

    def handle_expect_100(self) -> bool:
        return True  # bodies are not read, so none is requested

    def do_GET(self) -> None:
        self.server.stop_waiting(self.connection)
        if self._is_ambiguous():
            self.close_connection = True
            self._send(Response.text(400, "the headers of the request are ambiguous"))
            return
        if "close" in self.headers.get("connection", "").lower():
            self.close_connection = True  # the base class compares the whole header
        if "content-length" in self.headers or "transfer-encoding" in self.headers:
            self.close_connection = True  # the body is not read
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, path, headers, self.server.origin, query)
        try:
            self._send(self._respond(request))
        except Disconnect:
            self.server.reset_later(self.connection)
            self.close_connection = True

    do_HEAD = do_GET  # noqa: N815 - its name there

    def _is_ambiguous(self) -> bool:
        """Return whether a server in front may parse other headers, or end them elsewhere."""
        headers = self.headers
        lengths = [
            *headers.get_all("content-length", ()),
            *headers.get_all("transfer-encoding", ()),
        ]
        return bool(headers.defects or headers.get_payload() or len(lengths) > 1) or any(
            _NAME.fullmatch(name) is None or not _LINE_ENDS.isdisjoint(value)
            for name, value in headers.items()
        )

    def _respond(self, request: Request) -> Response:
        try:
            return self.server.application(request)
        except Disconnect:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of one response must not end the server
            self.server.failures.append(error)
            return Response.text(500, "the server failed to answer")

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in {**SECURITY_HEADERS, **response.headers}.items():
            self.send_header(name, value)
        if response.status != 304:
            self.send_header("content-length", str(response.length))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        if self.command == "HEAD":
            return
        sent = 0
        for piece in response.body:
            self.wfile.write(piece)
            sent += len(piece)
        if sent != response.length:
            self.close_connection = True  # the client will notice the incomplete body

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Log nothing."""
