"""The loopback server with real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from programs import run_program
from server.running import raw

from wheelfit.server.loopback import LoopbackIndex, LoopbackServer
from wheelfit.server.messages import Disconnect, Request, Response
from wheelfit.testing.wheels import build_large_wheel, build_wheel

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def connect(server: LoopbackServer) -> http.client.HTTPConnection:
    """Open a connection."""
    return http.client.HTTPConnection(server.origin.removeprefix("http://"), timeout=10)


def ask(
    server: LoopbackServer, path: str = "/", method: str = "GET", **headers: str
) -> tuple[int, bytes]:
    """Send a request over a connection of its own; return status and body."""
    with closing(connect(server)) as connection:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()


def test_index(tmp_path: Path) -> None:
    """Pages and files are served over HTTP, on the loopback interface only."""
    path = build_wheel(tmp_path, "some", "1.0")
    with LoopbackIndex(tmp_path) as index:
        assert index.url.startswith("http://127.0.0.1:")
        assert path.name in urlopen(f"{index.url}some/").read().decode()
        assert urlopen(f"{index.origin}/files/{path.name}").read() == path.read_bytes()
        assert not index.failures


def test_keep_alive() -> None:
    """A connection serves several requests; HEAD has the headers without a body."""
    with LoopbackServer(lambda request: Response.text(200, request.path)) as server:
        connection = connect(server)
        for path in ("/a", "/b"):
            connection.request("GET", path)
            assert connection.getresponse().read() == f"{path}\n".encode()
        first = connection.sock
        connection.request("HEAD", "/abc")
        response = connection.getresponse()
        assert response.headers["content-length"] == "5"
        assert response.read() == b""
        connection.request("GET", "/d?x=1")
        assert connection.getresponse().read() == b"/d\n"
        assert connection.sock is first
        connection.close()


def test_close() -> None:
    """Closing ends all threads, even if a client keeps its connection open."""
    before = set(threading.enumerate())
    server = LoopbackServer(lambda _: Response.text(200, "hello"))
    with server:
        connection = connect(server)
        connection.request("GET", "/")
        connection.getresponse().read()
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before
    with pytest.raises(OSError, match=r"."):
        socket.create_connection(("127.0.0.1", int(server.origin.rpartition(":")[2])), timeout=1)
    connection.close()


def test_never_started() -> None:
    """A server that was not started can be closed, even twice."""
    server = LoopbackServer(lambda _: Response.text(200, "hello"))
    server.close()
    server.close()


def test_exceptions_of_the_application() -> None:
    """An unexpected exception is answered with 500, reported to the owner, and ends nothing."""

    def application(request: Request) -> Response:
        if request.path == "/bad":
            raise RuntimeError("secret detail")
        return Response.text(200, "fine")

    with LoopbackServer(application) as server:
        status, body = ask(server, "/bad")
        assert (status, b"secret" in body) == (500, False)
        assert ask(server, "/good") == (200, b"fine\n")
        assert [str(error) for error in server.failures] == ["secret detail"]


def test_disconnect() -> None:
    """An application can drop the connection, before or during a response."""

    def half() -> Iterator[bytes]:
        yield b"x" * 1000
        raise Disconnect

    def application(request: Request) -> Response:
        if request.path == "/half":
            return Response(200, {}, half(), 2000)
        raise Disconnect

    with LoopbackServer(application) as server:
        with pytest.raises(ConnectionError):
            ask(server)
        with pytest.raises((ConnectionError, http.client.IncompleteRead)):
            ask(server, "/half")


def test_short_bodies() -> None:
    """A body shorter than announced cuts the connection, so that the client notices."""
    short = Response(200, {}, (b"abc",), 10)
    with LoopbackServer(lambda _: short) as server, pytest.raises(http.client.IncompleteRead):
        ask(server)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_other_methods(method: str) -> None:
    """Methods that change something are refused."""
    with LoopbackServer(lambda _: Response.text(200, "hello")) as server:
        assert ask(server, method=method)[0] == 501


def address(server: LoopbackServer) -> tuple[str, int]:
    """Return the address of a server."""
    parts = urlsplit(server.origin)
    return str(parts.hostname), int(parts.port or 0)


@pytest.mark.parametrize(
    "line",
    [
        "Content-Length : 9",
        "no header\r\nContent-Length: 9",
        "X: y\r\n Content-Length: 9",
        "X\0: y",
    ],
)
def test_request_smuggling(line: str) -> None:
    """Ambiguous heads are refused, and what follows is not read as a request."""
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(request.path)
        return Response.text(200, "here")

    head = f"GET /first HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n"
    with LoopbackServer(answer) as server:
        response = raw(address(server), f"{head}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert response.startswith(b"HTTP/1.1 400 ")
    assert response.count(b"HTTP/1.1 ") == 1
    assert asked == []


def test_endless_head() -> None:
    """Slow loris: a head that arrives byte by byte has no more time than others."""
    with (
        LoopbackServer(lambda one: Response.text(200, one.path), timeout=1.0) as server,
        socket.create_connection(address(server), timeout=0.1) as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(300):
            try:
                connection.sendall(b"a")
                if connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("it is waited for")


def test_too_many_connections() -> None:
    """A connection beyond the limit is closed, and existing ones continue."""
    with LoopbackServer(lambda one: Response.text(200, one.path), max_connections=2) as server:
        held = [connect(server) for _ in range(2)]
        for _ in range(2):
            for connection in held:
                connection.request("GET", "/x")
                assert connection.getresponse().read() == b"/x\n"
            assert raw(address(server), b"") == b""
        for connection in held:
            connection.close()


def test_host_header(tmp_path: Path) -> None:
    """URLs on a page do not depend on what the client sends."""
    build_wheel(tmp_path, "some", "1.0")
    with LoopbackIndex(tmp_path) as index:
        kind = "application/vnd.pypi.simple.v1+json"
        _, body = ask(index, "/simple/some/", Host="evil.localhost", Accept=kind)
        (entry,) = json.loads(body)["files"]
        assert entry["url"] == "../../files/some-1.0-py3-none-any.whl"


def test_large_files(tmp_path: Path) -> None:
    """Files are streamed, whole and in ranges."""
    path = build_large_wheel(tmp_path, "some", "1.0", 30_000_000)
    with LoopbackIndex(tmp_path) as index:
        content = path.read_bytes()
        assert ask(index, f"/files/{path.name}", Range="bytes=-1000") == (206, content[-1000:])
        assert ask(index, f"/files/{path.name}") == (200, content)


def test_concurrent_requests(tmp_path: Path) -> None:
    """Concurrent requests of many threads all get the right page."""
    path = build_wheel(tmp_path, "some", "1.0")
    with LoopbackIndex(tmp_path) as index, ThreadPoolExecutor(16) as pool:
        bodies = list(pool.map(lambda _: urlopen(f"{index.url}some/").read(), range(100)))
    assert len(set(bodies)) == 1
    assert path.name.encode() in bodies[0]


def test_pip(pip: Path, tmp_path: Path) -> None:
    """A-1: pip finds the plain wheel, checks its hash, and fetches its metadata separately."""
    build_wheel(tmp_path / "wheels", "some", "1.0", requires=["other>=2"])
    build_wheel(tmp_path / "wheels", "other", "2.0")
    build_wheel(tmp_path / "wheels", "other", "3.0", requires_python="<3")
    with LoopbackIndex(tmp_path / "wheels") as index:
        options = ("--isolated", "--no-input", "--disable-pip-version-check", "--no-cache-dir")
        place = ("--target", tmp_path / "target", "--index-url", index.url)
        run_program(pip, "install", *options, *place, "some")
    assert (tmp_path / "target" / "some").is_dir()
    assert (tmp_path / "target" / "other-2.0.dist-info").is_dir()


def test_dns_rebinding(tmp_path: Path) -> None:
    """Foreign host names read nothing, and responses cannot be embedded."""
    build_wheel(tmp_path, "private", "1.0")
    with LoopbackIndex(tmp_path) as index:
        for host, status in (("localhost", 200), ("[::1]:80", 200), ("evil.test", 421)):
            head = f"GET /simple/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            response = raw(address(index), head.encode())
            assert int(response.split()[1]) == status
            assert (b"private" in response) == (status == 200)
            assert b"cross-origin-resource-policy: same-origin" in response
            assert b"content-security-policy: default-src 'none'" in response
