"""Servers that are killed, and full disks."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from server.running import RunningIndex, post
from server.services import ObjectStorage, Postgresql

from wheelfit.server.store.opening import clean, open_store
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux does"),
]
pytest.importorskip("uvicorn", reason="needs the extra `server`")
JSON = "application/vnd.pypi.simple.v1+json"
PATIENCE = 60.0


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- killed between the bytes and their record ------------------------------------------------


@contextmanager
def locked_sqlite(path: Path) -> Iterator[None]:
    """Lock a SQLite database against other writers."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@contextmanager
def locked_postgresql(url: str) -> Iterator[None]:
    """Take the lock of all writers."""
    import psycopg

    from wheelfit.server.store.postgresql import LOCK

    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        yield


@pytest.mark.parametrize("kind", ["sqlite+folder", "postgresql+s3"])
def test_kill_between_bytes_and_record(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """After kill -9 the file is missing, can be uploaded, and its bytes are cleaned."""
    folder = tmp_path / "store"
    taken: AbstractContextManager[None]
    if kind == "sqlite+folder":
        addresses = (f"sqlite://{folder}/index.sqlite3", f"file://{folder}/files")
        taken = locked_sqlite(folder / "index.sqlite3")
    else:
        database: Postgresql = request.getfixturevalue("postgresql")
        storage: ObjectStorage = request.getfixturevalue("object_storage")
        addresses = (database.database(), storage.bucket())
        taken = locked_postgresql(addresses[0])
    place = ("--database", addresses[0], "--storage", addresses[1])
    wheel = build_wheel(tmp_path / "dist", "killed", "1.0")
    other = build_wheel(tmp_path / "dist", "killed", "2.0")
    contents = {one: one.read_bytes() for one in (wheel, other)}
    digest = hashlib.sha256(contents[wheel]).hexdigest()
    cut: list[str] = []

    def send(index: RunningIndex, token: str) -> None:
        try:
            cut.append(post(index.address, wheel, token=token)[1])
        except (OSError, http.client.HTTPException) as error:
            cut.append(type(error).__name__)

    with (
        RunningIndex(folder, *place) as index,
        open_store(folder, records=addresses[0], blobs=addresses[1]) as store,
    ):
        token = index.token
        with taken:
            client = threading.Thread(target=send, args=(index, token))
            client.start()
            wait_until(lambda: store.blobs.size(digest) == len(contents[wheel]))
            assert store.records.file(wheel.name) is None
            assert index.stop(signal.SIGKILL) == -signal.SIGKILL
            client.join()
        assert cut
        assert "OK" not in cut
    with (
        RunningIndex(folder, *place) as index,
        open_store(folder, records=addresses[0], blobs=addresses[1]) as store,
    ):
        assert index.get("/simple/killed/")[0] == index.get(f"/files/{wheel.name}")[0] == 404
        assert store.blobs.size(digest) is not None
        later = datetime.now(UTC) + timedelta(days=2)
        assert clean(store, now=later, grace=timedelta(days=1)).blobs == 1
        assert store.blobs.size(digest) is None
        for one, content in contents.items():
            assert index.upload(one, token=token) == 200
            assert index.get(f"/files/{one.name}")[2] == content


# --- killed in the middle of fetching ---------------------------------------------------------


def test_kill_during_a_mirrored_download(tmp_path: Path) -> None:
    """After kill -9 a partial file is not served, and the next request gets all of it."""
    wheels = tmp_path / "wheels"
    content = random.Random(3).randbytes(1 << 20)
    wheel = build_wheel(wheels, "large", "1.0", files={"large/data": content})
    whole = wheel.read_bytes()
    folder = tmp_path / "store"
    incoming = folder / "mirrored/files/.incoming"
    with RecordingIndex(wheels) as upstream:
        mirror = ("--mirror", f"up={upstream.url}")
        upstream.faults.stall[wheel.name] = len(whole) // 2
        with RunningIndex(folder, *mirror) as index:
            connection = http.client.HTTPConnection(*index.address, timeout=PATIENCE)
            connection.request("GET", f"/files/{wheel.name}")
            answer = connection.getresponse()
            assert answer.status == 200
            came = answer.read(1000)
            assert whole.startswith(came)
            wait_until(
                lambda: sum(path.stat().st_size for path in incoming.iterdir()) >= len(whole) // 2
            )
            assert index.stop(signal.SIGKILL) == -signal.SIGKILL
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()
            connection.close()
        assert not list((folder / "mirrored/files").glob("??/*"))
        del upstream.faults.stall[wheel.name]
        with RunningIndex(folder, *mirror) as index:
            status, _, page = index.get("/simple/large/", accept=JSON)
            (listed,) = json.loads(page)["files"]
            assert (status, listed["hashes"]["sha256"]) == (200, hashlib.sha256(whole).hexdigest())
            assert index.get(f"/files/{wheel.name}")[2] == whole
            assert index.get(f"/files/{wheel.name}", range="bytes=5-9")[2] == whole[5:10]
            # What the dead one left goes with a start a day later.
            for left in incoming.glob("*.part"):
                os.utime(left, (1, 1))
    with RunningIndex(folder, *mirror) as index:
        assert not list(incoming.glob("*.part"))
        assert index.get(f"/files/{wheel.name}")[2] == whole  # kept: nobody answers upstream


# --- no room on the disk ----------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a disk of four megabytes, or skip."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no disk can be mounted: {error}")
    if completed.returncode:
        pytest.skip(f"no disk can be mounted: {completed.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def test_full_disk(small_disk: Path, tmp_path: Path) -> None:
    """Uploads get 503 with the reason, downloads work, and uploads too once there is space."""
    noise = random.Random(5)
    dist = tmp_path / "dist"
    first = build_wheel(dist, "roomy", "1.0", files={"roomy/data": noise.randbytes(1 << 20)})
    large = build_wheel(dist, "roomy", "2.0", files={"roomy/data": noise.randbytes(5 << 20)})
    small = build_wheel(dist, "roomy", "3.0")
    files = small_disk / "store/files"

    def listed(index: RunningIndex) -> list[str]:
        _, _, page = index.get("/simple/roomy/", accept=JSON)
        return [file["filename"] for file in json.loads(page)["files"]]

    with RunningIndex(tmp_path / "logs", "--database", f"sqlite://{small_disk}/store/index.sqlite3",
                      "--storage", f"file://{files}") as index:  # fmt: skip
        assert index.upload(first) == 200
        kept = sorted(files.glob("??/*"))
        # The file itself has no room.
        status, reason, body = post(index.address, large, token=index.token)
        assert (status, "is full" in body, "No space" in body) == (503, True, False)
        assert "is full" in reason  # which is all that publishing tools show
        assert not list((files / ".incoming").iterdir())
        # Nothing at all has room: neither bytes nor their record.
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space"):
            fill(filler)
        assert post(index.address, small, token=index.token)[0] == 503
        assert sorted(files.glob("??/*")) == kept
        assert listed(index) == [first.name]
        assert index.get(f"/files/{first.name}")[2] == first.read_bytes()
        filler.unlink()
        assert index.upload(small) == 200
        assert index.upload(large) == 503
        assert listed(index) == [first.name, small.name]
        assert index.get(f"/files/{small.name}")[2] == small.read_bytes()
        assert index.stop() == 0
        assert not index.events("failure")
        told = index.events("unavailable")
        assert {one["reference"] for one in told} == {"storage-unavailable"}
        assert any("No space left on device" in one["message"] for one in told)
