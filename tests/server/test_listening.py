"""Limits for slow, endless, excessive and broken connections."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from server.running import raw

from wheelfit.server.listening import listen_at, listen_on, origin_of
from wheelfit_runtime.errors import InvalidConfiguration

pytestmark = pytest.mark.integration

pytest.importorskip("uvicorn", reason="needs the extra `server`")

# A server with little patience: how long something takes is what these tests are about.
SERVER = """
import time
from wheelfit.server.asgi import AsgiApplication, ClientLimits
from wheelfit.server.listening import listen_at, origin_of, serve
from wheelfit.server.messages import Response

def stalling():
    yield b"half"
    time.sleep(2)
    yield b"rest"

def answer(request):
    if request.path == "/broken":
        return Response(200, {}, iter([b"half"]), 8)
    if request.path == "/large":
        return Response(200, {}, (bytes(1 << 18) for _ in range(1000)), 1000 << 18)
    if request.path == "/late":
        time.sleep(2)
        raise ValueError("too late for anybody")
    if request.path == "/stalls":
        return Response(200, {}, stalling(), 8)
    if request.path == "/fault":
        raise ValueError("a fault")
    size = 0
    while piece := request.body.read(1 << 16):
        size += len(piece)
    return Response.text(200, str(size))

limits = ClientLimits(head_size=4096, body_size=1_000_000, io_timeout=1.0, idle_timeout=1,
                      connections=6, response_timeout=1.0)
listener = listen_at("127.0.0.1", 0)
told = []
application = AsgiApplication(answer, limits=limits,
                              on_served=lambda served: told.append(served.status))
serve(application, listener, limits, ready=lambda: print(origin_of(listener), flush=True))
print(sorted(set(told)), flush=True)
"""


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    """Return the address of a server with tight limits."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        parts = urlsplit(process.stdout.readline().decode().strip())
        yield str(parts.hostname), int(parts.port or 0)
        process.terminate()
        # Each is told of; which there were depends on the tests that this process ran.
        assert set(json.loads(process.stdout.read())) <= {200, 408, 413, 499, 500, 503}
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("line", "status"),
    [(b"BREW /pot HTTP/1.1", b"501"), (b"get / HTTP/1.1", b"501"), (b"\x16\x03\x01", b"400")],
)
def test_unknown_methods(address: tuple[str, int], line: bytes, status: bytes) -> None:
    """An unknown method is distinguished from data that is not HTTP."""
    assert raw(address, line + b"\r\nHost: x\r\n\r\n").split()[1] == status


def test_endless_head(address: tuple[str, int]) -> None:
    """Slow loris: a head that arrives byte by byte is answered, and its connection closed."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        connection.settimeout(0.2)
        received = b""
        while True:
            try:
                connection.sendall(b"a: b\r\n")
                piece = connection.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                break
            if not piece:
                break
            received += piece
        assert received.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("endless", [b"a: " + b"b" * 1000 + b"\r\n", b"b" * 1000])
def test_trailers_and_chunk_extensions(address: tuple[str, int], endless: bytes) -> None:
    """Trailers and chunk extensions count against the limit for heads."""
    begin = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(begin + (b"\r\n" if endless.endswith(b"\n") else b";"))
        try:
            for _ in range(100_000):
                connection.sendall(endless)
        except ConnectionError:
            return
        pytest.fail("nobody stops it")


def test_silent_connection(address: tuple[str, int]) -> None:
    """A silent connection is ended, and others are served meanwhile."""
    with socket.create_connection(address, timeout=20) as connection:
        assert raw(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_endless_body(address: tuple[str, int]) -> None:
    """A chunked body is read up to the limit and then refused."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
        sent = 0
        try:
            while sent < 100 << 20:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            return  # reset or broken pipe, as it comes
        pytest.fail("nobody stops it")


def test_incomplete_body(address: tuple[str, int]) -> None:
    """A client that sends only part of an announced body gets 408."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc"
    assert raw(address, head).startswith(b"HTTP/1.1 408 ")


def test_announced_size(address: tuple[str, int]) -> None:
    """A body announced as too large is refused at once; others are read whole."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000001\r\n\r\n"
    assert raw(address, head).startswith(b"HTTP/1.1 413 ")
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 900000\r\n\r\n"
    assert raw(address, head + bytes(900_000)).endswith(b"\r\n\r\n900000\n")


def test_client_that_does_not_read(address: tuple[str, int]) -> None:
    """A response of 250 MB to a client that does not read it is ended."""
    with socket.create_connection(address, timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(4)
        received = 0
        try:
            while piece := connection.recv(1 << 20):
                received += len(piece)
        except ConnectionResetError:
            pass
        assert received < 100 << 20


def test_too_many_connections(address: tuple[str, int]) -> None:
    """Idle connections are closed in favour of active ones."""
    idle = [socket.create_connection(address, timeout=20) for _ in range(12)]
    try:
        answer = raw(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in idle:
            connection.close()


def test_unwanted_bodies(address: tuple[str, int]) -> None:
    """A client that keeps sending after its response makes room for others."""
    head = b"POST /fault HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
    sending = [socket.create_connection(address, timeout=10) for _ in range(6)]
    for one in sending:
        one.sendall(head)
        one.recv(1 << 16)
    assert raw(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").startswith(
        b"HTTP/1.1 200 "
    )
    for one in sending:
        one.close()


def test_broken_responses(address: tuple[str, int]) -> None:
    """A short response ends the connection; an exception of a handler is a status."""
    answer = raw(address, b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"content-length: 8" in answer
    assert answer.endswith(b"\r\n\r\nhalf")
    answer = raw(address, b"GET /fault HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"ValueError" not in answer


def test_slow_responses(address: tuple[str, int]) -> None:
    """A slow response becomes 503; if it has begun, the connection is cut."""
    answer = raw(address, b"GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 2" in answer
    answer = raw(address, b"GET /stalls HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"content-length: 8" in answer
    assert answer.endswith(b"\r\n\r\nhalf")
    time.sleep(1.5)  # until both threads have ended, in vain
    answer = raw(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_keep_alive(address: tuple[str, int]) -> None:
    """A connection serves several requests, also when pipelined."""
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert raw(address, request * 3 + last).count(b"HTTP/1.1 200 ") == 4


# A server that has no file left to open, for some seconds after it was asked for "/eat".
WITHOUT_FILES = """
import os, resource, threading
from contextlib import suppress
from wheelfit.server.asgi import AsgiApplication, ClientLimits
from wheelfit.server.listening import listen_at, origin_of, serve
from wheelfit.server.messages import Response

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

def answer(request):
    if request.path == "/eat":
        files = []
        with suppress(OSError):
            while True:
                files.append(os.open(os.devnull, os.O_RDONLY))
        threading.Timer(2.5, lambda: [os.close(one) for one in files]).start()
    return Response.text(200, "here")

limits = ClientLimits()
listener = listen_at("127.0.0.1", 0)
application = AsgiApplication(answer, limits=limits)
serve(application, listener, limits, ready=lambda: print(origin_of(listener), flush=True),
      note=lambda text: print(text, flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit on Windows")
def test_no_file_descriptors() -> None:
    """Connections wait until they can be accepted, with one log line per second."""
    request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_FILES], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline().decode()
        assert "because this process may open 100 files" in first
        assert "ulimit -n 4256" in first  # what 2,000 connections need
        parts = urlsplit(process.stdout.readline().decode().strip())
        address = (str(parts.hostname), int(parts.port or 0))
        assert raw(address, request.replace(b"/ ", b"/eat ")).startswith(b"HTTP/1.1 200 ")
        began = time.monotonic()
        waiting = [socket.create_connection(address, timeout=30) for _ in range(20)]
        for one in waiting:
            one.sendall(request)
        for one in waiting:
            assert one.recv(100).startswith(b"HTTP/1.1 200 ")
            one.close()
        lasted = time.monotonic() - began
        process.terminate()
        told, faults = (text.decode() for text in process.communicate(timeout=60))
        assert (process.returncode, faults) == (0, "")
    finally:
        process.kill()
        process.communicate()
    lines = told.splitlines()
    assert all("no connection can be accepted: Too many open files" in line for line in lines)
    assert 0 < len(lines) <= lasted + 2


def test_connections_without_a_request(address: tuple[str, int]) -> None:
    """Connections that never sent a request are closed before ones between requests."""
    client = http.client.HTTPConnection(*address, timeout=20)
    silent = []
    for _ in range(40):
        silent.append(socket.create_connection(address, timeout=20))
        client.request("GET", "/")
        assert client.getresponse().read() == b"0\n"
    client.close()
    for one in silent:
        one.close()


def test_passed_sockets() -> None:
    """A passed descriptor that is not a listening socket is refused."""
    with socket.socket() as silent, pytest.raises(InvalidConfiguration):
        listen_on(silent.detach())
    with pytest.raises(InvalidConfiguration):
        listen_on(987)


def test_port_in_use() -> None:
    """A port in use is reported as the reason."""
    with listen_at("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert origin_of(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(InvalidConfiguration, match="listen"):
            listen_at("127.0.0.1", port)
