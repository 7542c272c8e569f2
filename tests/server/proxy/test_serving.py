"""`wheelfit proxy` for other machines, with limits against abuse."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from server.running import clean_environ, raw

from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Response
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_large_wheel, build_release, release_document

pytest.importorskip("uvicorn", reason="needs the extra `server`")

SECRET = "a-secret-of-this-test"
X86_64 = {"requires": ["x86-64-variant-provider<1"]}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve a project whose dependencies differ by variant, and a large one."""
    folder = tmp_path_factory.mktemp("index")
    document = release_document({"v3": {"x86_64": {"level": ["v3"]}}}, providers={"x86_64": X86_64})
    build_release(
        folder, "some", "1.0", document, ("v3", None), requires=['x; variant_label == "v3"']
    )
    build_large_wheel(folder, "large", "1.0", 30_000_000)
    with RecordingIndex(folder) as served:
        yield served


@contextmanager
def terminated(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill a process at the end."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def proxy(
    index: RecordingIndex, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """Run the program so that other machines could reach it."""
    folder = tmp_path_factory.mktemp("home")
    words = ("--host", "0.0.0.0", "--port", "0", "--index-url", index.url, "--full")
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "wheelfit", "proxy", *words],
            env={**clean_environ(folder), "WHEELFIT_PROXY_SECRET": SECRET},
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    with terminated(process):
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    told = (folder / "said").read_text()
    assert "other machines can reach the proxy" in told
    assert "failed" not in told


@pytest.fixture(scope="module")
def base(proxy: subprocess.Popen[str]) -> str:
    """Return the base URL with the secret."""
    assert proxy.stdout is not None
    url = proxy.stdout.readline().strip()
    assert url.endswith(f"/{SECRET}/simple/")
    return url.removesuffix("simple/")


def address_of(base: str) -> tuple[str, int]:
    """Return the address of a server."""
    parts = urlsplit(base)
    return str(parts.hostname), int(parts.port or 0)


def wheel_of(base: str) -> str:
    """Return the URL of the rewritten wheel."""
    page = f"{base}for/cpu-x86_64-v3/simple/some/"
    accept = {"accept": "application/vnd.pypi.simple.v1+json"}
    with urlopen(Request(page, headers=accept)) as answer:
        files = json.load(answer)["files"]
    (url,) = (file["url"] for file in files if "-0_v3-" in file["filename"])
    return f"{base}for/cpu-x86_64-v3/{url.removeprefix('../../')}"


def test_ranges_of_a_rewritten_wheel(base: str) -> None:
    """GET, HEAD and ranges give the same file of the announced size."""
    url = wheel_of(base)
    with urlopen(url) as answer:
        whole = answer.read()
    with urlopen(Request(url, method="HEAD")) as answer:
        assert int(answer.headers["content-length"]) == len(whole)
    with urlopen(Request(url, headers={"range": "bytes=10-99"})) as answer:
        assert (answer.status, answer.read()) == (206, whole[10:100])


def test_concurrent_clients(base: str) -> None:
    """A hundred concurrent clients get the same page."""

    def get(_: int) -> bytes:
        with urlopen(f"{base}for/cpu-x86_64-v3/simple/some/") as answer:
            return bytes(answer.read())

    with ThreadPoolExecutor(100) as pool:
        assert len(set(pool.map(get, range(100)))) == 1


def test_paths_without_the_secret(base: str) -> None:
    """Without the secret every path is a 404."""
    for path in ("/", "/simple/", "/simple/some/", f"/{SECRET}x/simple/"):
        answer = raw(address_of(base), f"GET {path} HTTP/1.0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 404 ")


PROBES = {
    "h2c": (
        (
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade, HTTP2-Settings\r\n"
            "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n"
        ),
        200,
    ),
    "websocket": (
        (
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ),
        200,
    ),
    "http/2 at once": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "another server": (
        "GET http://169.254.169.254/latest HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        400,
    ),
    "a tunnel": (
        "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        400,
    ),
    "line ends in the path": (
        "GET {path}%0d%0aX-Evil:%20yes/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        404,
    ),
    "two lengths": (
        "GET {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        400,
    ),
    "smuggling": (
        (
            "GET {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n"
            "\r\n0\r\n\r\n"
        ),
        400,
    ),
}


@pytest.mark.parametrize("server", ["shared", "small"])
@pytest.mark.parametrize("probe", PROBES)
def test_probes(base: str, index: RecordingIndex, probe: str, server: str) -> None:
    """Other protocols, other servers and header injection are refused."""
    text, status = PROBES[probe]
    path = f"{urlsplit(base).path}simple/large/"
    before = len(index.requests)
    if server == "shared":
        answer = raw(address_of(base), text.format(path=path).encode())
    else:
        with LoopbackServer(_pages) as small:
            answer = raw(address_of(small.origin), text.format(path=path).encode())
    head = answer.partition(b"\r\n\r\n")[0].lower()
    expected = {400, 404, 405, 501, 505} if status == 400 else {status}
    # Of a version that it does not know the small one says no more than words.
    said = int(head.split()[1]) if head.startswith(b"http/") else 505 * (b"505" in answer)
    assert said in expected, answer
    assert b"x-evil" not in head
    assert b"upgrade" not in head
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert not any("169.254" in request.path for request in index.requests[before:])


def _pages(request: object) -> Response:
    """Answer as the proxy does for the paths of the probes."""
    path = getattr(request, "path", "")
    is_there = path.endswith("/simple/large/") and "%" not in path and path.startswith("/")
    return Response.text(200, "a page") if is_there else Response.text(404, "nothing")


def test_request_bodies(base: str) -> None:
    """Request bodies are refused, announced or sent."""
    connection = http.client.HTTPConnection(*address_of(base), timeout=20)
    path = f"{urlsplit(base).path}simple/some/"
    connection.request("POST", path, body=b"x" * 100)
    assert connection.getresponse().status in (405, 413)
    connection.close()
    with socket.create_connection(address_of(base), timeout=20) as line:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        line.sendall(head.encode())
        piece = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
        sent = 0
        try:
            while sent < 64 << 20:
                line.sendall(piece)
                sent += len(piece)
        except OSError:
            return
        pytest.fail("an endless body is read")


@pytest.mark.integration
def test_graceful_shutdown(index: RecordingIndex, tmp_path: Path) -> None:
    """Transfers are completed at shutdown."""
    words = ("--port", "0", "--index-url", index.url, "--full", "--no-cache-dir")
    process = subprocess.Popen(
        [sys.executable, "-m", "wheelfit", "proxy", *words],
        env={**clean_environ(tmp_path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with terminated(process):
        assert process.stdout is not None
        base = process.stdout.readline().strip().removesuffix("simple/")
        url = wheel_of(base)
        connection = http.client.HTTPConnection(*address_of(base), timeout=30)
        connection.request("GET", urlsplit(url).path)
        answer = connection.getresponse()
        process.send_signal(signal.SIGTERM)
        assert len(answer.read()) == int(answer.headers["content-length"])
        connection.close()
        assert process.wait(30) == 0
    assert not list(tmp_path.glob("wheelfit-proxy-*"))


def test_returning_index(tmp_path: Path) -> None:
    """An index that was unreachable is served soon after it returns."""
    (tmp_path / "simple/some").mkdir(parents=True)
    (tmp_path / "simple/some/index.html").write_text("<!DOCTYPE html><a href=x.whl>x.whl</a>")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    words = ("--port", "0", "--full", "--index-url", f"http://127.0.0.1:{address[1]}/simple/")
    with terminated(
        subprocess.Popen(
            [sys.executable, "-m", "wheelfit", "proxy", *words],
            env=clean_environ(tmp_path), stdout=subprocess.PIPE, text=True,
        )
    ) as process:  # fmt: skip
        assert process.stdout is not None
        url = f"{process.stdout.readline().strip()}some/"
        with pytest.raises(HTTPError, match="502"):
            urlopen(url)
        handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
        with ThreadingHTTPServer(address, handler) as server:
            threading.Thread(target=server.serve_forever).start()
            time.sleep(5.1)
            with urlopen(url) as answer:
                assert b"x.whl" in answer.read()
            server.shutdown()
