"""A live index process with publishing tools and installers."""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal
from urllib.request import urlopen

import pytest
from programs import until
from server.balancing import Balancer, documented_forwarding, find_nginx
from server.debian import Unavailable
from server.running import RunningIndex, basic, bearer, post, raw, run_client
from server.services import ObjectStorage, Postgresql
from server.uploading import CONTENT_TYPE, DOCUMENT, fields_of, form

from wheelfit.testing.wheels import build_large_wheel, build_wheel

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux does"),
]
pytest.importorskip("uvicorn", reason="needs the extra `server`")
TWINE = "twine==7.0.0"
LAST = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
SMUGGLED = (
    b"POST /legacy/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningIndex]:
    """Yield a running index for tests that do not disturb it."""
    with RunningIndex(tmp_path_factory.mktemp("index") / "store") as running:
        yield running
        assert running.stop() == 0
        assert not running.events("failure")


def variants(folder: Path, name: str) -> list[Path]:
    """Build a release with three variants and a plain wheel."""
    return [
        build_wheel(folder, name, "1.0", label=label, document=DOCUMENT)
        for label in ("null", "mkl", "open", None)
    ]


def is_open(address: tuple[str, int]) -> bool:
    """Return whether a port is open."""
    try:
        socket.create_connection(address).close()
    except ConnectionRefusedError:
        return False
    return True


# --- publishing tools and installers ------------------------------------------------------------


def test_publishing_tools_and_installers(
    index: RunningIndex, environment_with: Callable[..., Path], pip: Path, uv: Path, tmp_path: Path
) -> None:
    """Pip, uv and wheelfit install uploads of twine and uv."""
    twine = environment_with(TWINE).parent / "twine"
    by_twine, by_uv = tmp_path / "a", tmp_path / "b"
    files = variants(by_twine, "ours")
    login = ["-u", "__token__", "-p", index.token]
    upload = [twine, "upload", "--non-interactive", "--repository-url", index.upload_url, *login]
    run_client(tmp_path, *upload, *files)
    build_wheel(by_uv, "theirs", "1.0", requires=["ours"])
    publish = [uv, "publish", "--publish-url", index.upload_url, "--token", index.token]
    run_client(tmp_path, *publish, *by_uv.iterdir())
    run_client(tmp_path, *publish, *by_uv.iterdir())  # the same again is no fault

    for number, command in enumerate(
        (
            (pip, "install", "--no-cache-dir", "--index-url", index.url),
            (uv, "pip", "install", "--python", sys.executable, "--default-index", index.url),
        )
    ):
        target = tmp_path / f"target{number}"
        run_client(tmp_path, *command, "--target", target, "theirs")
        assert (target / "ours-1.0.dist-info").is_dir()
    ours = (sys.executable, "-m", "wheelfit")
    result = run_client(tmp_path, *ours, "explain", "ours", "--index-url", index.url, "--json")
    (project,) = json.loads(result)["projects"]
    assert {candidate["label"] for candidate in project["candidates"]} == {
        "null",
        "mkl",
        "open",
        None,
    }


def test_reason_in_publishing_tools(
    index: RunningIndex, environment_with: Callable[..., Path], uv: Path, tmp_path: Path
) -> None:
    """Twine and uv show the reason of a refusal."""
    twine = environment_with(TWINE).parent / "twine"
    build_wheel(tmp_path / "one", "shown", "1.0")
    build_wheel(tmp_path / "two", "shown", "1.0", requires=["something"])
    (path,) = (tmp_path / "one").iterdir()
    (other,) = (tmp_path / "two").iterdir()
    assert index.upload(path) == 200
    upload = [twine, "upload", "--non-interactive", "--repository-url", index.upload_url]
    upload += ["-u", "__token__", "-p", index.token]
    result = run_client(tmp_path, *upload, other, code=1)
    assert "a file of this name with other content exists" in " ".join(result.split())
    assert "name-taken" in result
    publish = [uv, "publish", "--publish-url", index.upload_url, "--token"]
    result = run_client(tmp_path, *publish, index.token, other, code=2)
    assert "name-taken" in result
    result = run_client(tmp_path, *publish, "wheelfit-wrong", other, code=2)
    assert "the token is not known" in result


def test_stage(index: RunningIndex, uv: Path, tmp_path: Path) -> None:
    """A stage is installable with its token only, and is published atomically."""
    files = variants(tmp_path / "wheels", "staged")
    me = {"authorization": bearer(index.token), "content_type": "application/json"}
    status, _, body = index.ask("POST", "/-/api/stages", b'{"lifetime": "1h"}', **me)
    assert status == 200
    stage = json.loads(body)
    base = f"/stage/{stage['id']}"
    for path in files:
        assert index.upload(path, at=f"{base}/legacy/") == 200
    assert index.get("/simple/staged/")[0] == 404
    assert index.get(f"{base}/simple/staged/")[0] == 401
    assert index.get(f"{base}/simple/staged/", authorization=basic("wheelfit-other"))[0] == 403
    host, port = index.address
    url = f"http://__token__:{stage['secret']}@{host}:{port}{base}/simple/"
    install = [uv, "pip", "install", "--python", sys.executable, "--default-index", url]
    run_client(tmp_path, *install, "--target", tmp_path / "target", "staged")
    seen: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            _, _, page = index.get("/simple/staged/", accept="application/vnd.pypi.simple.v1+json")
            seen.append(page.count(b'"filename"'))

    thread = threading.Thread(target=look)
    thread.start()
    status, _, body = index.ask("POST", f"/-/api/stages/{stage['id']}/publish", None, **me)
    while len(seen) < 3:
        time.sleep(0.01)
    over.set()
    thread.join()
    assert status == 200
    assert len(json.loads(body)["files"]) == 4
    assert set(seen) <= {0, 5}  # all of them with the document of the release, or nothing
    assert index.get("/simple/staged/")[0] == 200


@pytest.mark.parametrize(
    ("options", "projects"),
    [
        (("--read", "tokens"), ()),
        (("--private", "hid*", "--private", "other"), ("--project=hid*",)),
    ],
)
def test_private_projects(
    pip: Path, uv: Path, tmp_path: Path, options: tuple[str, ...], projects: tuple[str, ...]
) -> None:
    """Pip, uv and wheelfit use a token in the URL; without it nothing is visible."""
    with RunningIndex(tmp_path / "store", *options) as index:
        assert index.upload(build_wheel(tmp_path, "hidden", "1.0", requires=["free"])) == 200
        for name in ("free", "other"):
            assert index.upload(build_wheel(tmp_path, name, "1.0")) == 200
        create = [sys.executable, "-m", "wheelfit", "index", "token", "create", "--scope", "read"]
        token = run_client(tmp_path, *create, *projects, "--at", index.folder).split()[0]
        assert index.get("/simple/hidden/")[0] == index.get("/simple/other/")[0] == 401
        shown = basic(token)
        other = index.get("/simple/other/", authorization=shown)[0]
        assert other == (404 if projects else 200)
        url = index.url.replace("://", f"://__token__:{token}@")
        for number, command in enumerate(
            (
                (pip, "install", "--no-cache-dir", "--index-url", url),
                (uv, "pip", "install", "--python", sys.executable, "--default-index", url),
                (sys.executable, "-m", "wheelfit", "install", "--index-url", url),
            )
        ):
            target = tmp_path / f"target{number}"
            run_client(tmp_path, *command, "--target", target, "hidden")
            assert (target / "hidden-1.0.dist-info").is_dir()
            assert (target / "free-1.0.dist-info").is_dir()


# --- what goes over the wire ----------------------------------------------------------------------


def test_ranges_and_compression(index: RunningIndex, tmp_path: Path) -> None:
    """Ranges, entity tags and gzip work together."""
    import gzip

    for number in range(12):
        assert index.upload(build_wheel(tmp_path, "wire", f"1.{number}")) == 200
    name = "wire-1.3-py3-none-any.whl"
    content = (tmp_path / name).read_bytes()
    status, headers, body = index.get(f"/files/{name}", range="bytes=10-19")
    assert (status, body) == (206, content[10:20])
    assert headers["content-range"] == f"bytes 10-19/{len(content)}"
    assert headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    assert index.get(f"/files/{name}", range=f"bytes={len(content)}-")[0] == 416
    for nonsense in ("bytes=5-2", "bytes=a-b", "bytes=" + ",".join(["0-"] * 2000), "lines=1-2"):
        assert index.get(f"/files/{name}", range=nonsense)[2] == content
    status, headers, body = index.ask("HEAD", f"/files/{name}")
    assert (status, headers["content-length"], body) == (200, str(len(content)), b"")

    plain = index.get("/simple/wire/")
    packed = index.get("/simple/wire/", accept_encoding="br, gzip;q=0.5")
    assert gzip.decompress(packed[2]) == plain[2]
    assert packed[1]["etag"] != plain[1]["etag"]
    assert "Accept-Encoding" in plain[1]["vary"]
    assert "content-encoding" not in plain[1]
    assert "content-encoding" not in index.get("/simple/wire/", accept_encoding="gzip;q=0")[1]
    for etag, code in ((packed[1]["etag"], 304), (plain[1]["etag"], 200)):
        answer = index.get("/simple/wire/", accept_encoding="gzip", if_none_match=etag)
        assert answer[0] == code
    assert packed[1]["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /simple/\r\n\r\n", 400),
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /simple/ HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
        (b"GET /simple/ HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400),
        (b"GET /simple/ HTTP/1.1\r\nHost: x\r\nBig: " + b"a" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /simple/ HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 9000 + b"\r\n", 431),
        (b"GET /" + b"a" * 40_000, 431),
        (b"POST /legacy/ HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (SMUGGLED, 400),
        (b"POST /legacy/ HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n", 413),
        (b"POST /simple/" + LAST, 405),
        (b"GET /legacy/" + LAST, 405),
        (b"GET /files/../../admin-token" + LAST, 404),
        (b"GET /files/..%2f..%2fadmin-token" + LAST, 404),
        (b"GET /files/%00" + LAST, 404),
    ],
)  # fmt: skip
def test_invalid_requests(index: RunningIndex, request_: bytes, status: int) -> None:
    """Broken, smuggled and too large requests get the right status."""
    answer = raw(index.address, request_)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:300]


def test_cache_poisoning(index: RunningIndex, tmp_path: Path) -> None:
    """Host, forwarding headers and line breaks do not get into responses."""
    assert index.upload(build_wheel(tmp_path, "hosted", "1.0")) == 200
    lies = {"host": "evil.example", "x_forwarded_host": "evil.example", "forwarded": "host=evil"}
    for path in ("/simple/hosted/", "/simple/", "/simple/Hosted/", "/simple/hosted"):
        _, headers, body = index.get(path, **lies)
        assert b"evil" not in body
        assert "evil" not in str(headers)
    answer = raw(
        index.address,
        b"GET /simple/a%0d%0aset-cookie:%20x=y HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    assert b"\nset-cookie" not in answer.lower()


def test_upload_without_a_token(index: RunningIndex) -> None:
    """Without a token an upload is refused before its body is read."""
    with socket.create_connection(index.address, timeout=30) as connection:
        connection.sendall(
            b"POST /legacy/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000000\r\n\r\n"
        )
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 401 a token is needed")


def test_health_and_metrics(index: RunningIndex) -> None:
    """Health is public, metrics need the operator's token."""
    assert index.get("/-/health/live")[0] == index.get("/-/health/ready")[0] == 200
    assert index.get("/-/metrics")[0] == 401
    _, _, body = index.get("/-/metrics", authorization=bearer(index.token))
    assert b'wheelfit_requests_total{route="health",status="200"}' in body


# --- accidents and endings ------------------------------------------------------------------------


def begin_upload(index: RunningIndex, size: int) -> http.client.HTTPConnection:
    """Send the headers of an upload whose form has this many bytes."""
    connection = http.client.HTTPConnection(*index.address, timeout=300)
    connection.putrequest("POST", "/legacy/")
    connection.putheader("content-type", CONTENT_TYPE)
    connection.putheader("authorization", basic(index.token))
    connection.putheader("content-length", str(size))
    connection.endheaders()
    return connection


def download(address: tuple[str, int], path: str) -> str:
    """Return the SHA-256 of a downloaded file."""
    connection = http.client.HTTPConnection(*address, timeout=300)
    connection.request("GET", path)
    answer = connection.getresponse()
    digest = hashlib.sha256()
    while piece := answer.read(1 << 20):
        digest.update(piece)
    connection.close()
    return digest.hexdigest()


@pytest.mark.parametrize(
    "size", [100_000_000, pytest.param(2 << 30, marks=pytest.mark.gigabytes)], ids=["100MB", "2GiB"]
)
def test_memory_of_large_wheels(size: int, tmp_path: Path) -> None:
    """Upload, download and mirroring of a large wheel need less than 50 MB."""
    wheel = build_large_wheel(tmp_path, "large", "1.0", size)
    with wheel.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    content = fields_of(wheel.name, b"") | {"sha256_digest": sha256, "blake2_256_digest": ""}
    start, _, stop = form(wheel.name, b"|HERE|", content).partition(b"|HERE|")
    with (
        RunningIndex(tmp_path / "store") as index,
        RunningIndex(tmp_path / "mirror", "--mirror", f"up={index.url}") as mirror,
    ):
        assert mirror.get("/simple/other/")[0] == index.get("/simple/other/")[0] == 404
        before = {one: one.memory() for one in (index, mirror)}
        connection = begin_upload(index, len(start) + wheel.stat().st_size + len(stop))
        connection.send(start)
        with wheel.open("rb") as file:
            connection.send(file)
        connection.send(stop)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        connection.close()
        wheel.unlink()
        assert download(index.address, f"/files/{wheel.name}") == sha256
        grown = {"upload and download": index.memory() - before[index]}
        for _ in range(2):  # while it is fetched, and when it is kept
            assert download(mirror.address, f"/files/{wheel.name}") == sha256
        grown["mirror"] = mirror.memory() - before[mirror]
        print(grown)
        assert max(grown.values()) < 50 << 20, grown


def test_kill_during_an_upload(tmp_path: Path) -> None:
    """After kill -9 a partial upload is missing and can be repeated."""
    wheel = build_wheel(tmp_path, "killed", "1.0")
    content = wheel.read_bytes()
    body = form(wheel.name, content, fields_of(wheel.name, content))
    with RunningIndex(tmp_path / "store") as index:
        token = index.token
        connection = begin_upload(index, len(body))
        connection.send(body[:-200])
        until(lambda: any((tmp_path / "store/files/.incoming").glob("*.part")))
        assert index.stop(signal.SIGKILL) == -signal.SIGKILL
        connection.close()
    with RunningIndex(tmp_path / "store") as index:
        assert index.said["token_file"] is None
        assert index.get("/simple/killed/")[0] == 404
        assert index.upload(wheel, token=token) == 200
        assert index.get(f"/files/{wheel.name}")[2] == content


def test_restart_under_load(tmp_path: Path) -> None:
    """With a passed socket no request fails during a restart."""
    wheel = build_wheel(tmp_path, "steady", "1.0")
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    listener.set_inheritable(True)
    host, port = listener.getsockname()
    handed = ("--fd", str(listener.fileno()))
    problems: list[object] = []
    counts = [0] * 4
    over = threading.Event()

    def ask(number: int, path: str) -> None:
        while not over.is_set():
            try:
                connection = http.client.HTTPConnection(host, port, timeout=60)
                for _ in range(5):
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status != 200:
                        problems.append(answer.status)
                    counts[number] += 1
                    if answer.getheader("connection") == "close":
                        break
                connection.close()
            except Exception as error:  # noqa: BLE001 - any is a failed request
                problems.append(error)

    with listener:
        first = RunningIndex(tmp_path / "store", *handed, pass_fds=[listener.fileno()])
        assert first.upload(wheel) == 200
        paths = ["/simple/steady/", f"/files/{wheel.name}", "/simple/", "/-/health/ready"]
        threads = [
            threading.Thread(target=ask, args=(number, path)) for number, path in enumerate(paths)
        ]
        for thread in threads:
            thread.start()
        for _ in range(2):
            second = RunningIndex(tmp_path / "store", *handed, pass_fds=[listener.fileno()])
            assert first.stop() == 0
            first = second
        before = sum(counts)
        while sum(counts) < before + 50 and not problems:
            time.sleep(0.01)
        over.set()
        for thread in threads:
            thread.join()
        assert first.stop() == 0
    assert not problems
    assert min(counts) > 0


def test_shutdown_during_an_upload(tmp_path: Path) -> None:
    """A running upload is completed at shutdown."""
    wheel = build_wheel(tmp_path, "ending", "1.0")
    content = wheel.read_bytes()
    body = form(wheel.name, content, fields_of(wheel.name, content))
    with RunningIndex(tmp_path / "store") as index:
        connection = begin_upload(index, len(body))
        connection.send(body[:-200])
        until(lambda: any((tmp_path / "store/files/.incoming").glob("*.part")))
        index.process.send_signal(signal.SIGTERM)
        until(lambda: not is_open(index.address))
        connection.send(body[-200:])
        answer = connection.getresponse()
        assert answer.status == 200
        connection.close()
        assert index.process.wait(60) == 0
    with RunningIndex(tmp_path / "store") as index:
        assert index.get(f"/files/{wheel.name}")[2] == content


# --- several machines ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trusted", "client", "scheme"),
    [
        ((), "127.0.0.1", "http"),
        (("--trusted-proxy=127.0.0.0/8",), "203.0.113.7", "https"),
        (("--trusted-proxy=127.0.0.0/8", "--proxy-headers=forwarded"), "2001:db8::1", "https"),
        (("--trusted-proxy=10.0.0.0/8",), "127.0.0.1", "http"),
    ],
    ids=["nobody", "this one", "by RFC 7239", "another one"],
)
def test_forwarding_headers(
    tmp_path: Path, trusted: tuple[str, ...], client: str, scheme: str
) -> None:
    """Only a trusted proxy determines client and scheme."""
    forwarded = {
        "X-Forwarded-For": "198.51.100.1, 203.0.113.7",
        "X-Forwarded-Proto": "https",
        "Forwarded": 'for=198.51.100.1, for="[2001:db8::1]:4711";proto=https',
    }
    with RunningIndex(tmp_path / "index", *trusted) as index:
        _, _, page = index.get("/", **forwarded)
        assert f"global.index-url {scheme}://127.0.0.1".encode() in page
        index.stop()
        (served,) = [event for event in index.events("request") if event["path"] == "/"]
    assert served["client"] == client


@pytest.mark.parametrize("kind", ["x-forwarded", "forwarded"])
def test_nginx(kind: Literal["x-forwarded", "forwarded"], tmp_path: Path) -> None:
    """The headers of the documented nginx are used, those of its client are not."""
    lies = {
        "X-Forwarded-For": "198.51.100.1",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": 'for=198.51.100.1;proto=https;host=evil.example, for="',
    }
    try:
        program = find_nginx()
    except Unavailable as error:
        pytest.skip(str(error))
    options = ("--trusted-proxy=127.0.0.1", f"--proxy-headers={kind}", "--allowed-host=replicas")
    with (
        RunningIndex(tmp_path / "index", *options, "--allowed-host=wheels.example") as index,
        Balancer(
            program, tmp_path / "nginx", index.address, forwarding=documented_forwarding(kind)
        ) as nginx,
    ):
        pages = {}
        for host in ("wheels.example:8080", "evil.example"):
            connection = http.client.HTTPConnection(
                *nginx.address, source_address=("127.0.0.2", 0), timeout=60
            )
            connection.request("GET", "/", headers={"Host": host, **lies})
            answer = connection.getresponse()
            pages[answer.status] = answer.read()
            connection.close()
        assert b"global.index-url http://wheels.example:8080/simple/" in pages[200]
        assert pages.keys() == {200, 421}
        index.stop()
        served = [event["client"] for event in index.events("request") if event["path"] == "/"]
    assert served == ["127.0.0.2"] * 2


def test_replicas_behind_a_load_balancer(
    postgresql: Postgresql, object_storage: ObjectStorage, uv: Path, tmp_path: Path
) -> None:
    """Concurrent uploads have one winner, and a dead replica is not noticed."""
    try:
        program = find_nginx()
    except Unavailable as error:
        pytest.skip(str(error))
    place = ["--database", postgresql.database(), "--storage", object_storage.bucket()]
    place += ["--allowed-host", "replicas"]  # how the balancer calls them
    rivals = [
        build_wheel(tmp_path / str(number), "raced", "1.0", requires=[f"other{number}"])
        for number in range(8)
    ]
    same = [build_wheel(tmp_path / "same", "agreed", "1.0")] * 8
    released = variants(tmp_path / "dist", "balanced")
    with (
        RunningIndex(tmp_path / "one", *place) as one,
        RunningIndex(tmp_path / "two", *place) as two,
        Balancer(program, tmp_path / "nginx", one.address, two.address) as balancer,
    ):
        with ThreadPoolExecutor(16) as pool:
            answers = list(
                pool.map(
                    lambda path: post(balancer.address, path, token=one.token), [*rivals, *same]
                )
            )
        statuses = [status for status, _, _ in answers]
        assert sorted(statuses[:8]) == [200] + [409] * 7
        assert statuses[8:] == [200] * 8
        won = rivals[statuses.index(200)]
        for index in (one, two):
            assert index.get(f"/files/{won.name}")[2] == won.read_bytes()
            assert index.get(f"/files/{same[0].name}")[2] == same[0].read_bytes()
            assert any(served["path"] == "/legacy/" for served in index.events("request"))
        time.sleep(0.2)  # what the other one did shows after a tenth of a second
        pages = [index.get("/simple/raced/")[2] for index in (one, two)]
        assert pages[0] == pages[1]
        assert won.name.encode() in pages[0]
        publish = [uv, "publish", "--publish-url", f"{balancer.origin}/legacy/"]
        run_client(tmp_path, *publish, "--token", one.token, *released)
        two.stop(signal.SIGKILL)
        install = [str(uv), "pip", "install", "--python", sys.executable, "--default-index"]
        install += [f"{balancer.origin}/simple/", "--target", str(tmp_path / "target")]
        run_client(tmp_path, *install, "balanced")
        for _ in range(8):
            with urlopen(f"{balancer.origin}/files/{won.name}", timeout=60) as answer:
                assert answer.read() == won.read_bytes()
