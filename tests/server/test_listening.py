"""Connections that are slow, endless, too many or cut off, and what bounds them."""

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
    """Give where a server with tight limits listens."""
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
def test_what_is_asked_in_no_known_way(
    address: tuple[str, int], line: bytes, status: bytes
) -> None:
    """A method that nobody knows is told from what is not HTTP at all."""
    assert raw(address, line + b"\r\nHost: x\r\n\r\n").split()[1] == status


def test_a_head_that_never_ends_is_answered_and_closed(address: tuple[str, int]) -> None:
    """Slow loris: a byte now and then keeps no connection."""
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
def test_what_stands_beside_a_body_has_an_end(address: tuple[str, int], endless: bytes) -> None:
    """Trailers and the extensions of chunks are no way around the limit of a head."""
    begin = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0"
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(begin + (b"\r\n" if endless.endswith(b"\n") else b";"))
        try:
            for _ in range(100_000):
                connection.sendall(endless)
        except ConnectionError:
            return
        pytest.fail("nobody stops it")


def test_nothing_said_is_answered_in_the_end(address: tuple[str, int]) -> None:
    """A connection that brings nothing ends, and others are answered meanwhile."""
    with socket.create_connection(address, timeout=20) as connection:
        assert raw(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_never_ends_is_cut_off(address: tuple[str, int]) -> None:
    """A chunked body of any size is taken up to the limit, and then refused."""
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


def test_a_body_that_does_not_come_is_given_up(address: tuple[str, int]) -> None:
    """Who announces a body and sends part of it is answered 408."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc"
    assert raw(address, head).startswith(b"HTTP/1.1 408 ")


def test_a_body_is_counted_before_it_is_read(address: tuple[str, int]) -> None:
    """What is announced to be too large is refused at once; what is not is taken whole."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000001\r\n\r\n"
    assert raw(address, head).startswith(b"HTTP/1.1 413 ")
    head = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 900000\r\n\r\n"
    assert raw(address, head + bytes(900_000)).endswith(b"\r\n\r\n900000\n")


def test_a_client_that_reads_nothing_is_cut_off(address: tuple[str, int]) -> None:
    """250 MB for somebody who does not take them are not kept waiting for ever."""
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


def test_too_many_connections_end_the_one_that_is_idle(address: tuple[str, int]) -> None:
    """Connections that do nothing make room for one that asks."""
    idle = [socket.create_connection(address, timeout=20) for _ in range(12)]
    try:
        answer = raw(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
    finally:
        for connection in idle:
            connection.close()


def test_bodies_that_nobody_wants_keep_nobody_out(address: tuple[str, int]) -> None:
    """Who has his answer and goes on sending, fast enough, makes room for others."""
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


def test_an_answer_that_breaks_off_is_seen_to(address: tuple[str, int]) -> None:
    """Fewer bytes than announced end the connection; a fault of a handler is a status."""
    answer = raw(address, b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"content-length: 8" in answer
    assert answer.endswith(b"\r\n\r\nhalf")
    answer = raw(address, b"GET /fault HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"ValueError" not in answer


def test_an_answer_that_does_not_come_in_time(address: tuple[str, int]) -> None:
    """It is answered 503; if it has begun already, it is cut off."""
    answer = raw(address, b"GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 2" in answer
    answer = raw(address, b"GET /stalls HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"content-length: 8" in answer
    assert answer.endswith(b"\r\n\r\nhalf")
    time.sleep(1.5)  # until both threads have ended, in vain
    answer = raw(address, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_connection_is_used_again(address: tuple[str, int]) -> None:
    """Several requests go over one connection, also when they are sent at once."""
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
def test_without_a_file_to_open_nothing_is_lost_and_little_is_said() -> None:
    """Connections wait until they can be accepted; one sentence a second tells of it."""
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


def test_connections_that_ask_nothing_go_first(address: tuple[str, int]) -> None:
    """A client between two requests keeps its connection while others never bring one."""
    client = http.client.HTTPConnection(*address, timeout=20)
    silent = []
    for _ in range(40):
        silent.append(socket.create_connection(address, timeout=20))
        client.request("GET", "/")
        assert client.getresponse().read() == b"0\n"
    client.close()
    for one in silent:
        one.close()


def test_sockets_of_others_must_listen() -> None:
    """What is handed over and is not a listening socket is refused."""
    with socket.socket() as silent, pytest.raises(InvalidConfiguration):
        listen_on(silent.detach())
    with pytest.raises(InvalidConfiguration):
        listen_on(987)


def test_a_place_that_is_taken_is_refused() -> None:
    """A port that somebody has is said to be the reason."""
    with listen_at("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert origin_of(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(InvalidConfiguration, match="listen"):
            listen_at("127.0.0.1", port)
