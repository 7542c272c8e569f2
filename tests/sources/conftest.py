"""A server that answers exactly what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import hashlib
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from wheelfit.sources.cache import Store
from wheelfit.sources.cached_pages import CachedPages
from wheelfit.sources.certificates import verifying_context
from wheelfit.sources.client import Client
from wheelfit.sources.credentials import Credentials, NetrcEntries
from wheelfit.sources.page import File
from wheelfit.sources.remote_files import RemoteFiles
from wheelfit.sources.retries import RetryPolicy
from wheelfit.sources.urllib3_transport import Urllib3Transport

CERTIFICATES = Path(__file__).parent / "certificates"


@dataclass
class Reply:
    """Say what the server sends."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Bytes after which the connection is cut; None sends everything."""
    chunked: bool = False
    """Announce no length, close at the end."""
    silent_after: int | None = None
    """Bytes after which nothing comes any more, though the connection stays."""


@dataclass
class Request:
    """Hold what the server was asked."""

    path: str
    headers: Mapping[str, str]


class PatientServer(ThreadingHTTPServer):
    """A server that does not mind clients that hang up."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Show only what is not the client's doing."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ScriptedServer:
    """Answer by path, on a free port of this machine."""

    def __init__(self, *, certificate: str | None = None) -> None:
        self.replies: dict[str, Reply | Callable[[Request], Reply]] = {}
        self.requests: list[Request] = []
        self.connections = 0
        self.stopped = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers)
                outer.requests.append(request)
                reply = outer.replies.get(self.path, Reply(status=404))
                if not isinstance(reply, Reply):
                    reply = reply(request)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.chunked:
                    self.send_header("Connection", "close")
                elif "Content-Length" not in reply.headers and reply.status != 304:
                    self.send_header("Content-Length", str(len(reply.body)))
                try:
                    self.end_headers()
                    if reply.silent_after is not None:
                        self.wfile.write(reply.body[: reply.silent_after])
                        outer.stopped.wait()
                        return
                    self.wfile.write(reply.body[: reply.cut_after])
                    self.wfile.flush()
                except ConnectionError:  # the client has read enough
                    self.close_connection = True
                if reply.cut_after is not None or reply.chunked:
                    self.close_connection = True

            do_CONNECT = do_GET  # noqa: N815 - the name is http.server's

            def setup(self) -> None:
                outer.connections += 1
                super().setup()

            def log_message(self, *_: object) -> None:
                pass

        self._server = PatientServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.port = self._server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    reply = staticmethod(Reply)
    """What a server sends; here so that tests need not import this file."""

    def stop(self) -> None:
        """End the server."""
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve_file(self, path: str, body: bytes, *, etag: str = '"1"') -> None:
        """Serve a file as a good server does, byte ranges included."""

        def answer(request: Request) -> Reply:
            asked = request.headers.get("range", "")
            headers = {"ETag": etag, "Accept-Ranges": "bytes"}
            if not asked or request.headers.get("if-range", etag) != etag:
                return Reply(body, headers=headers)
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(body) - int(last))
            stop = min(int(last) + 1, len(body)) if first and last else len(body)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
            return Reply(body[start:stop], 206, headers)

        self.replies[path] = answer

    def listed(
        self,
        path: Path,
        *,
        hashed: bool = True,
        ranges: bool = True,
        chunked: bool = False,
        **entry: Any,
    ) -> File:
        """Serve a wheel and return its entry."""
        body = path.read_bytes()
        if ranges:
            self.serve_file(f"/{path.name}", body)
        else:
            self.replies[f"/{path.name}"] = Reply(body, chunked=chunked)
        hashes = {"sha256": hashlib.sha256(body).hexdigest()} if hashed else {}
        entry = {"hashes": hashes, "source": "index", **entry}
        return File(path.name, f"{self.url}/{path.name}", **entry)

    @property
    def paths(self) -> list[str]:
        """The paths asked for, in order."""
        return [request.path for request in self.requests]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """Give one server."""
    server = ScriptedServer()
    yield server
    server.stop()


@pytest.fixture
def other_server() -> Iterator[ScriptedServer]:
    """Give a second server, on another port."""
    server = ScriptedServer()
    yield server
    server.stop()


@pytest.fixture
def tls_server() -> Iterator[ScriptedServer]:
    """Give a server with a certificate that no system trusts."""
    server = ScriptedServer(certificate="server.pem")
    yield server
    server.stop()


@pytest.fixture
def stranger() -> Iterator[ScriptedServer]:
    """Give a server whose certificate is for another name."""
    server = ScriptedServer(certificate="stranger.pem")
    yield server
    server.stop()


class Waits(list[float]):
    """Remember the seconds that would have been waited."""

    def __call__(self, seconds: float) -> None:
        """Wait for no time at all."""
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    """Give a clock that does not wait."""
    return Waits()


@pytest.fixture
def make_client(waits: Waits) -> Iterator[Callable[..., Client]]:
    """Give a function that makes clients; retries cost no time."""
    made: list[Client] = []

    def make(
        *indexes: str,
        logins: NetrcEntries | None = None,
        transport: object = None,
        **options: object,
    ) -> Client:
        credentials = Credentials(indexes, logins=logins or NetrcEntries({}))
        wire = transport or Urllib3Transport(
            context=verifying_context(None, None, environ={}), timeout=5.0
        )
        settings: dict[str, object] = {
            "credentials": credentials,
            "policy": RetryPolicy(2),
            "resume_policy": RetryPolicy(2),
            "sleep": waits,
            **options,
        }
        client = Client(wire, **settings)  # type: ignore[arg-type]
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@pytest.fixture
def make_pages(make_client: Callable[..., Client]) -> Callable[..., CachedPages]:
    """Give a function that makes pages without memory, or with a store."""

    def make(
        *indexes: str, store: Store | None = None, client: Client | None = None, **options: object
    ) -> CachedPages:
        return CachedPages(
            client or make_client(*indexes),
            store or Store(None),
            **options,  # type: ignore[arg-type]
        )

    return make


@pytest.fixture
def make_files(make_pages: Callable[..., CachedPages]) -> Callable[..., RemoteFiles]:
    """Give a function that makes readers without memory, or with a store."""

    def make(store: Store | None = None, *, offline: bool = False, **options: Any) -> RemoteFiles:
        store = store or Store(None)
        return RemoteFiles(make_pages(store=store, offline=offline), store, **options)

    return make


@pytest.fixture
def target(tmp_path: Path) -> Iterator[BinaryIO]:
    """Give an empty file."""
    with (tmp_path / "target").open("w+b", buffering=0) as file:
        yield file
