"""Servers under load, or with dependencies that do not respond."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import socketserver
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from programs import run_program, until
from server.running import RunningIndex, clean_environ, post
from server.services import ObjectStorage, Postgresql

from wheelfit.errors import StorageUnavailable
from wheelfit.server.backing_services import Dependency
from wheelfit.server.store.postgresql import PostgresqlDatabase
from wheelfit.testing.wheels import build_wheel

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux does"),
]
pytest.importorskip("uvicorn", reason="needs the extra `server`")


def open_files(index: RunningIndex) -> int:
    """Return the number of open files of a server."""
    return len(list(Path(f"/proc/{index.process.pid}/fd").iterdir()))


def test_half_open_connections(tmp_path: Path) -> None:
    """With more connections than descriptors others are still served, and the log stays short."""
    wheel = build_wheel(tmp_path / "dist", "busy", "1.0", files={"busy/data": bytes(1 << 20)})
    with RunningIndex(tmp_path / "index", files=(128, 400)) as index:
        assert index.upload(wheel) == 200
        half_open = []
        for number in range(600):
            half_open.append(socket.create_connection(index.address, timeout=30))
            half_open[-1].sendall(b"GET /simple/ HTTP/1.1\r\n")
            if number % 50 == 0:
                assert index.get("/simple/busy/")[0] == 200
                assert index.get(f"/files/{wheel.name}")[2] == wheel.read_bytes()
                assert index.get("/-/health/ready")[0] == 200
        assert index.upload(wheel) == 200
        assert open_files(index) < 400
        for one in half_open:
            one.close()
        assert index.get("/simple/busy/")[0] == 200
        assert index.stop() == 0
        (told,) = index.events("connections")
        assert "at most 100 connections are accepted instead of 2000" in told["message"]
        assert "400 files" in told["message"]  # the soft limit of 128 was raised
        assert "Traceback" not in index.log
        assert len(index.log) < 30_000


# --- what the index depends on does not answer ------------------------------------------------


def readiness(index: RunningIndex) -> tuple[int, dict[str, str]]:
    """Return the readiness status, and the state of each dependency."""
    status, headers, body = index.get("/-/health/ready")
    assert headers["content-type"] == "application/json"
    assert index.get("/-/health/live")[0] == 200
    return status, json.loads(body)["dependencies"]


def states(index: RunningIndex, name: str) -> list[str]:
    """Return the logged states of a dependency."""
    return [event["state"] for event in index.events("dependency") if event["name"] == name]


@pytest.fixture
def own_postgresql(postgresql: Postgresql) -> Iterator[Postgresql]:
    """Return a PostgreSQL server that may be stopped."""
    with Postgresql(postgresql.programs) as server:
        yield server


@pytest.mark.parametrize("how", ["frozen", "stopped"])
def test_silent_database(own_postgresql: Postgresql, how: str, tmp_path: Path) -> None:
    """Pages in memory are served, other requests get 503, and it recovers soon."""
    wheels = [build_wheel(tmp_path / "dist", name, "1.0") for name in ("hot", "cold")]
    with RunningIndex(tmp_path / "index", "--database", own_postgresql.database()) as index:
        for wheel in wheels:
            assert index.upload(wheel) == 200
        page = index.get("/simple/hot/")
        assert page[0] == 200
        until(lambda: readiness(index) == (200, {"database": "ready", "storage": "ready"}))
        if how == "frozen":
            own_postgresql.send(signal.SIGSTOP)
        else:
            own_postgresql.stop()
        try:
            # From the first moment on, although nobody knows yet.
            assert index.get("/simple/hot/")[::2] == page[::2]
            until(
                lambda: (
                    readiness(index) == (503, {"database": "does not answer", "storage": "ready"})
                )
            )
            for _ in range(50):
                assert index.get("/simple/hot/")[::2] == page[::2]
                for path in ("/simple/cold/", f"/files/{wheels[0].name}", "/"):
                    status, headers, body = index.get(path)
                    assert (status, headers["retry-after"]) == (503, "2")
                    assert path == "/" or b"wheelfit-pg-" not in body  # a path of this machine
            assert index.upload(wheels[0]) == 503
            assert readiness(index)[0] == 503
        finally:
            if how == "frozen":
                own_postgresql.send(signal.SIGCONT)
            else:
                own_postgresql.start()
        until(lambda: readiness(index)[0] == 200)
        for wheel in wheels:
            assert index.get(f"/files/{wheel.name}")[2] == wheel.read_bytes()
        assert index.get("/simple/cold/")[0] == 200
        assert index.upload(build_wheel(tmp_path / "dist", "hot", "2.0")) == 200
        assert b"hot-2.0" in index.get("/simple/hot/")[2]
        assert index.stop() == 0
        assert states(index, "database") == ["does not answer", "ready"]
        assert not index.events("failure")


class Relay(socketserver.ThreadingUnixStreamServer):
    """A relay to another socket, which can go silent while still accepting."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, folder: Path, target: Path) -> None:
        self.target = target
        self.is_unresponsive = False
        self.count = 0
        super().__init__(str(folder / target.name), _Relayed)


class _Relayed(socketserver.BaseRequestHandler):
    """One connection through a relay."""

    def handle(self) -> None:
        """Relay in both directions until one side ends."""
        relay = self.server
        assert isinstance(relay, Relay)
        relay.count += 1
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(str(relay.target))
            ends = {self.request: other, other: self.request}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    if not relay.is_unresponsive:
                        ends[end].sendall(data)


def _wait_for(event: threading.Event) -> None:
    assert event.wait(60)


def test_no_second_connection(postgresql: Postgresql) -> None:
    """After a silent connection no request waits as long for a second one."""
    url = postgresql.database()
    folder = Path(parse_qs(urlsplit(url).query)["host"][0])
    over = threading.Event()
    with (
        tempfile.TemporaryDirectory(prefix="relay-") as place,  # a short path, for sockets
        Relay(Path(place), folder / ".s.PGSQL.5432") as relay,
    ):
        threading.Thread(target=relay.serve_forever, args=(0.02,)).start()
        dependency = Dependency("database", usual_seconds=0.2)
        relayed = url.replace(str(folder), place)
        with closing(PostgresqlDatabase(relayed, dependency=dependency)) as database:
            with database.reading() as execute:
                assert execute("SELECT 1") == [(1,)]
            before = relay.count
            relay.is_unresponsive = True
            with ThreadPoolExecutor(2) as pool:
                reading = pool.submit(database.probe)
                probing = pool.submit(dependency.probe, lambda: _wait_for(over))
                while not reading.done():
                    dependency.cancel_overdue()
                    time.sleep(0.02)
                over.set()
                probing.result(60)
                with pytest.raises(StorageUnavailable):
                    reading.result()
            assert relay.count == before
        relay.shutdown()


def test_shutdown_with_a_silent_database(own_postgresql: Postgresql, tmp_path: Path) -> None:
    """Requests that wait for the database are cancelled, and the server ends."""
    with RunningIndex(tmp_path / "index", "--database", own_postgresql.database()) as index:
        own_postgresql.send(signal.SIGSTOP)
        with socket.create_connection(index.address, timeout=60) as client:
            host = index.origin.partition("://")[2]
            client.sendall(f"GET /simple/any/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert index.get("/-/health/live")[0] == 200  # so it has read that request, too
            assert index.stop() == 0
            assert client.recv(100).startswith(b"HTTP/1.1 503 ")
        own_postgresql.send(signal.SIGCONT)


def test_uploads_before_an_outage(own_postgresql: Postgresql, tmp_path: Path) -> None:
    """A page changed by an upload just before an outage is not served in its old state."""
    dist = tmp_path / "dist"
    with RunningIndex(tmp_path / "index", "--database", own_postgresql.database()) as index:
        for name in ("changed", "other"):
            assert index.upload(build_wheel(dist, name, "1.0")) == 200
            assert index.get(f"/simple/{name}/")[0] == 200
        assert index.upload(build_wheel(dist, "changed", "2.0")) == 200
        own_postgresql.stop()
        assert index.get("/simple/other/")[0] == 200
        assert index.get("/simple/changed/")[0] == 503
        own_postgresql.start()
        until(lambda: index.get("/simple/changed/")[0] == 200)
        assert b"changed-2.0" in index.get("/simple/changed/")[2]


def test_frozen_storage(tmp_path: Path) -> None:
    """Pages and metadata are served; files get 503 before a response begins."""
    pytest.importorskip("obstore", reason="needs the extra `server`")
    wheel = build_wheel(tmp_path / "dist", "kept", "1.0")
    with (
        ObjectStorage() as storage,
        RunningIndex(tmp_path / "index", "--storage", storage.bucket()) as index,
    ):
        assert index.upload(wheel) == 200
        assert index.get(f"/files/{wheel.name}")[2] == wheel.read_bytes()
        storage.send(signal.SIGSTOP)
        try:
            until(
                lambda: (
                    readiness(index) == (503, {"database": "ready", "storage": "does not answer"})
                )
            )
            for _ in range(20):
                status, headers, body = index.get(f"/files/{wheel.name}")
                assert (status, headers["retry-after"]) == (503, "2")
                assert storage.origin.encode() not in body
                assert index.get("/simple/kept/")[0] == index.get("/")[0] == 200
                assert index.get(f"/files/{wheel.name}.metadata")[0] == 200
                assert index.get("/simple/never-seen/")[0] == 404
            assert index.upload(build_wheel(tmp_path / "dist", "kept", "2.0")) == 503
        finally:
            storage.send(signal.SIGCONT)
        until(lambda: readiness(index)[0] == 200)
        assert index.get(f"/files/{wheel.name}")[2] == wheel.read_bytes()
        assert index.upload(build_wheel(tmp_path / "dist", "kept", "2.0")) == 200
        assert index.stop() == 0
        assert states(index, "storage") == ["does not answer", "ready"]


def test_storage_that_never_responds(tmp_path: Path) -> None:
    """The server starts, reports the storage as unavailable, and can be stopped."""
    pytest.importorskip("obstore", reason="needs the extra `server`")
    with closing(socket.create_server(("127.0.0.1", 0))) as hole:
        origin = "http://{}:{}".format(*hole.getsockname())
        url = (
            f"s3://bucket/x?endpoint={origin}&access_key_id=a&secret_access_key=b&region=us-east-1"
        )
        with RunningIndex(tmp_path / "index", "--storage", url) as index:
            until(lambda: readiness(index)[0] == 503)
            assert index.get("/simple/")[0] == 200
            assert index.upload(build_wheel(tmp_path / "dist", "lost", "1.0")) == 503
            assert readiness(index)[1] == {"database": "ready", "storage": "does not answer"}
            assert index.stop() == 0


def test_hanging_folder(tmp_path: Path) -> None:
    """A hanging folder, such as a network share, does not block pages and uploads."""
    wheels = [build_wheel(tmp_path / "dist", name, "1.0") for name in ("hangs", "well")]
    with RunningIndex(tmp_path / "index") as index:
        for wheel in wheels:
            assert index.upload(wheel) == 200
        blob = next(
            path
            for path in (tmp_path / "index/files").glob("??/*")
            if path.read_bytes() == wheels[0].read_bytes()
        )
        blob.unlink()
        os.mkfifo(blob)  # opening it takes until somebody opens the other end
        answers: list[int] = []
        threads = [
            threading.Thread(
                target=lambda: answers.append(index.get(f"/files/{wheels[0].name}")[0])
            )
            for _ in range(30)
        ]
        for thread in threads:
            thread.start()
        try:
            until(lambda: len(answers) >= 22)  # all but eight are told at once
            assert set(answers) == {503}
            for number in range(30):
                assert index.get(f"/simple/unknown-{number}/")[0] == 404
            assert index.get("/simple/well/")[0] == index.get("/")[0] == 200
            for thread in threads:
                thread.join()  # their time is up, though their threads still hang
            assert set(answers) == {503}
        finally:
            with suppress(OSError):
                while True:  # one after the other
                    os.close(os.open(blob, os.O_WRONLY | os.O_NONBLOCK))
                    time.sleep(0.02)
        until(lambda: index.get(f"/files/{wheels[1].name}")[0] == 200)


def test_full_disk(small_disk: Callable[[Path, str], Path], tmp_path: Path) -> None:
    """A full disk is not ready: uploads get 503 with the reason, and files are still served."""
    disk = small_disk(tmp_path / "disk", "4m")
    noise = random.Random(5)
    dist = tmp_path / "dist"
    first = build_wheel(dist, "roomy", "1.0", files={"roomy/data": noise.randbytes(1 << 20)})
    large = build_wheel(dist, "roomy", "2.0", files={"roomy/data": noise.randbytes(5 << 20)})
    small = build_wheel(dist, "roomy", "3.0")
    files = disk / "store/files"

    def listed(index: RunningIndex) -> list[str]:
        _, _, page = index.get("/simple/roomy/", accept="application/vnd.pypi.simple.v1+json")
        return [file["filename"] for file in json.loads(page)["files"]]

    with RunningIndex(tmp_path / "logs", "--database", f"sqlite://{disk}/store/index.sqlite3",
                      "--storage", f"file://{files}") as index:  # fmt: skip
        assert index.upload(first) == 200
        until(lambda: readiness(index)[0] == 200)
        kept = sorted(files.glob("??/*"))
        # The file itself has no room.
        status, reason, body = post(index.address, large, token=index.token)
        assert (status, "is full" in body, "No space" in body) == (503, True, False)
        assert "is full" in reason  # which is all that publishing tools show
        assert not list((files / ".incoming").iterdir())
        # Nothing at all has room: neither bytes nor their record.
        filler = disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        assert index.upload(small) == 503
        full = {"database": "is full", "storage": "is full"}
        until(lambda: readiness(index) == (503, full))
        assert sorted(files.glob("??/*")) == kept
        assert listed(index) == [first.name]
        assert index.get(f"/files/{first.name}")[2] == first.read_bytes()
        filler.unlink()
        until(lambda: readiness(index) == (200, {"database": "ready", "storage": "ready"}))
        assert states(index, "storage")[-2:] == ["is full", "ready"]
        assert index.upload(small) == 200
        assert index.upload(large) == 503
        assert listed(index) == [first.name, small.name]
        assert index.get(f"/files/{small.name}")[2] == small.read_bytes()
        assert index.stop() == 0
        assert set(states(index, "storage")) == {"is full", "ready"}
        assert not index.events("failure")
        told = index.events("unavailable")
        assert {one["reference"] for one in told} == {"storage-unavailable"}
        assert any("No space left on device" in one["message"] for one in told)


def test_first_token_that_cannot_be_stored(tmp_path: Path) -> None:
    """A folder that cannot be made is a storage error, not an internal one."""
    (tmp_path / "taken").touch()
    ended = run_program(
        *(sys.executable, "-m", "wheelfit", "index", "serve", "taken", "--port=0"),
        f"--database=sqlite://{tmp_path}/db/index.sqlite3", f"--storage=file://{tmp_path}/files",
        code=6, cwd=tmp_path, env=clean_environ(tmp_path), timeout=60,
    )  # fmt: skip
    assert "storage-unavailable" in ended.stderr
    assert "admin-token" in ended.stderr
