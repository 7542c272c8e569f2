"""Web servers of the standard library: of a folder, and of what a function answers."""

from __future__ import annotations

import io
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from wheelfit.server.messages import Disconnect, Request, Response


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def served(folder: Path, *, certificate: Path | None = None) -> Iterator[str]:
    """Serve a folder on a free port, and yield the origin, as ``http://127.0.0.1:8080``.

    :param certificate: with its key, for a server that speaks TLS.
    """
    with _running(partial(_Quiet, directory=str(folder)), certificate) as origin:
        yield origin


@contextmanager
def _running(
    handler: Callable[..., BaseHTTPRequestHandler], certificate: Path | None
) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class AnsweringServer:
    """Serve what `answer` returns, which also gets the bodies of requests; a context manager.

    :param certificate: with its key, for a server that speaks TLS.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.asked: list[str] = []
        """Paths in the order in which they were asked for."""
        self.logins: list[str | None] = []
        """What was shown with each of these."""
        self.origin = ""
        self._server_certificate = certificate
        self._stack = ExitStack()

    def answer(self, request: Request) -> Response:
        """Answer a request."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        running = _running(partial(_Answering, self), self._server_certificate)
        self.origin = self._stack.enter_context(running)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class _Answering(BaseHTTPRequestHandler):
    def __init__(self, index: AnsweringServer, *arguments: Any) -> None:
        self._index = index
        super().__init__(*arguments)

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        path, _, query = self.path.partition("?")
        body = io.BytesIO(self.rfile.read(int(headers.get("content-length", 0))))
        request = Request(self.command, path, headers, f"{self._index.origin}/", query, body)
        self._index.asked.append(path)
        self._index.logins.append(headers.get("authorization"))
        try:
            answer = self._index.answer(request)
        except Disconnect:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(answer.status, answer.reason or None)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(answer.length))
        self.end_headers()
        for piece in answer.body if self.command != "HEAD" else ():
            self.wfile.write(piece)

    do_HEAD = do_POST = do_DELETE = do_GET  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        """Print nothing."""
