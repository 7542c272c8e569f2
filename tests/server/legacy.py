"""An index with the legacy upload API, which lists each file at once without checks."""

from __future__ import annotations

import base64
import io
import shutil
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from packaging.utils import canonicalize_name

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Disconnect, Request, Response
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.uploads.form import read_form
from wheelfit.sources.page import File

__all__ = ["LegacyIndex", "listed_files"]


def listed_files(folder: Path, project: str) -> dict[str, File]:
    """Return the files of a project that an index of a folder lists, by name."""
    page = FolderIndex(folder).project(canonicalize_name(project))
    return {file.filename: file for file in page.files} if page else {}


class LegacyIndex:
    """Serve a folder at ``/simple/``, and take what is posted to ``/``; a context manager.

    :param folder: where files go.
    :param certificate: of the server, which speaks TLS then.
    """

    def __init__(self, folder: Path, certificate: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.uploads: list[str] = []
        """Names in the order in which they came, refused ones included."""
        self.asked: list[str] = []
        """Paths in the order in which they were asked for."""
        self.logins: list[str | None] = []
        """What was shown with each of these."""
        self.fields: dict[str, dict[str, tuple[str, ...]]] = {}
        """By name: what came with a file."""
        self.answers: dict[str, list[Response]] = {}
        """By name: what is answered instead of taking a file, one after the other."""
        self.swallows: frozenset[str] = frozenset()
        """Names of files that are taken with a 200, and not kept."""
        self.after_uploads: dict[str, Response] = {}
        """By path: what is answered instead of a page as soon as somebody has uploaded."""
        self.pages: dict[str, Response] = {}
        """By path, or method and path: what is answered instead of a page."""
        self.dropped: dict[str, int] = {}
        """By name: how often the connection is cut instead."""
        self.login: tuple[str, str] | None = None
        """Who may upload; None: everybody."""
        self.reached = threading.Event()
        """Set as soon as somebody uploads."""
        self._blobs = FolderBlobs(folder / ".blobs")
        self._pages = FolderIndex(folder)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._scheme = "http"
        if certificate is not None:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """The address for uploads."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}/"

    @property
    def simple(self) -> str:
        """The URL of the index."""
        return f"{self.url}simple/"

    @property
    def names(self) -> set[str]:
        """The names of its files."""
        return {path.name for path in self.folder.iterdir() if path.is_file()}

    def answer(self, request: Request) -> Response:
        """Answer a request."""
        if f"{request.method} {request.path}" in self.pages:
            return self.pages[f"{request.method} {request.path}"]
        if request.method != "POST":
            if self.uploads and request.path in self.after_uploads:
                return self.after_uploads[request.path]
            return self.pages.get(request.path) or self._pages(request)
        if self.login is not None:
            pair = base64.b64encode(":".join(self.login).encode()).decode()
            if request.headers.get("authorization") != f"Basic {pair}":
                return Response.text(403, "wrong user", {})
        with read_form(
            request.body, request.headers["content-type"], self._blobs.draft()
        ) as upload:
            name = upload.filename
            self.uploads.append(name)
            self.reached.set()
            self.fields[name] = dict(upload.fields)
            if self.dropped.get(name, 0):
                self.dropped[name] -= 1
                raise Disconnect
            if self.answers.get(name):
                return self.answers[name].pop(0)
            if name not in self.swallows:
                shutil.copyfile(upload.draft.path, self.folder / name)
        return Response.text(200, "taken")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler_of(index: LegacyIndex) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            path, _, query = self.path.partition("?")
            body = io.BytesIO(self.rfile.read(int(headers.get("content-length", 0))))
            request = Request(self.command, path, headers, index.url, query, body)
            index.asked.append(path)
            index.logins.append(headers.get("authorization"))
            try:
                answer = index.answer(request)
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

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.do_GET()

        def do_DELETE(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
