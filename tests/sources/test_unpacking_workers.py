"""Claims about the processes that unpack wheels and compare them with their archives."""

from __future__ import annotations

import hashlib
import os
import random
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import Store
from wheelfit.sources.progress import Progress
from wheelfit.sources.unpacking_workers import (
    UnpackingResult,
    UnpackingTask,
    UnpackingWorker,
    UnpackingWorkers,
)
from wheelfit.sources.wheel_store import WheelStore
from wheelfit.testing.wheels import add_member, build_wheel, unpack_wheel
from wheelfit.wheels.bytes_source import BytesInMemory
from wheelfit.wheels.processors import processor_count
from wheelfit.wheels.unpacked import TREE, UnpackedWheel

TIMEOUT = 60.0
LARGE = 8 << 20
"""Bytes for which a worker is started."""


def sha256_of(path: Path) -> str:
    """Return the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def task_for(
    archive: Path, *, is_compared: bool = False, sha256: str | None = None
) -> UnpackingTask:
    """Return a task for an archive."""
    sha256 = sha256 or sha256_of(archive)
    hashes = {"sha256": sha256} if is_compared else None
    return UnpackingTask(str(archive), archive.name, sha256, archive.name, False, hashes)


def found(cache: Path, archive: Path) -> UnpackedWheel | None:
    """Return the cached wheel of an archive."""
    filename = parse_wheel_filename(archive.name)
    return WheelStore(Store(cache)).find(sha256_of(archive), filename, where=archive.name)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return an empty cache."""
    return tmp_path / "cache"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return a wheel with a program."""
    files: dict[str, bytes | str]
    files = {"demo.py": "1", "demo/large": bytes(3 << 20), "demo/run": "#!python"}
    return build_wheel(tmp_path / "wheels", "demo", "1", files=files, executables=["demo/run"])


@pytest.fixture
def worker(cache: Path) -> Iterator[UnpackingWorker]:
    """Yield a running worker."""
    running = UnpackingWorker(cache)
    yield running
    running.end()


class Arriving(BytesInMemory):
    """A wheel that arrives after an event.

    :param is_read: set when it is first read.
    """

    def __init__(self, archive: Path, is_read: threading.Event, arrives: threading.Event) -> None:
        super().__init__(archive.read_bytes())
        self._is_read = is_read
        self._arrives = arrives

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, once the wheel has arrived."""
        self._is_read.set()
        assert self._arrives.wait(TIMEOUT)
        return super().read_at(start, length)


class TestUnpacking:
    """Wheels that a worker unpacks into the cache."""

    def test_entry(self, worker: UnpackingWorker, cache: Path, archive: Path) -> None:
        """The entry is the one that this process would have written."""
        assert worker.run(task_for(archive)) == UnpackingResult()
        wheel, expected = found(cache, archive), unpack_wheel(archive)
        assert wheel is not None
        assert [wheel.files.names, wheel.files.hashes, wheel.files.executable_flags] == [
            list(expected.files.names),
            list(expected.files.hashes),
            expected.files.executable_flags,
        ]
        modes = [
            [each.path_of(name).stat().st_mode for name in each.names()]
            for each in (wheel, expected)
        ]
        assert modes[0] == modes[1]

    @pytest.mark.parametrize(
        "fault", ["missing", "of another hash", "not a wheel", "not in RECORD"]
    )
    def test_failure(
        self, worker: UnpackingWorker, cache: Path, archive: Path, tmp_path: Path, fault: str
    ) -> None:
        """After a failed task the cache has no entry, and the worker takes the next task."""
        bad = build_wheel(tmp_path / "bad", "bad", "1")
        task = task_for(bad)
        if fault == "missing":
            bad.unlink()
        elif fault == "other hash":
            bad = build_wheel(tmp_path / "bad", "bad", "1", files={"other.py": ""})
        else:
            if fault == "not a wheel":
                bad.write_bytes(b"PK")
            else:
                with zipfile.ZipFile(bad, "a") as members:
                    add_member(members, "bad/foreign.py", b"")
            task = task_for(bad)
        assert worker.run(task) is None
        assert not [path for path in (cache / "unpacked-1").rglob("*") if path.is_file()]
        assert worker.run(task_for(archive)) == UnpackingResult()
        assert found(cache, archive) is not None

    def test_unwritable_cache(self, tmp_path: Path, archive: Path) -> None:
        """Where nothing can be cached, the task fails."""
        (tmp_path / "cache").write_text("")
        worker = UnpackingWorker(tmp_path / "cache")
        assert worker.run(task_for(archive)) is None
        worker.end()


class TestComparing:
    """Unpacked wheels that a worker compares with their archives."""

    def test_unchanged(self, worker: UnpackingWorker, archive: Path) -> None:
        """A wheel is as it was unpacked."""
        worker.run(task_for(archive))
        assert worker.run(task_for(archive, is_compared=True)) == UnpackingResult(None)

    def test_changed(self, worker: UnpackingWorker, cache: Path, archive: Path) -> None:
        """A file with other content but the same size and time is named."""
        worker.run(task_for(archive))
        wheel = found(cache, archive)
        assert wheel is not None
        path = wheel.folder / TREE / "demo.py"
        before = path.stat()
        path.write_text("2")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert worker.run(task_for(archive, is_compared=True)) == UnpackingResult("demo.py")

    def test_not_unpacked(self, worker: UnpackingWorker, archive: Path) -> None:
        """A wheel that the cache does not have cannot be compared."""
        assert worker.run(task_for(archive, is_compared=True)) is None

    def test_another_archive(self, worker: UnpackingWorker, archive: Path) -> None:
        """An archive without the promised hash is not the one to compare with."""
        task = task_for(archive)
        worker.run(task)
        archive.write_bytes(archive.read_bytes() + b" ")
        assert worker.run(task_for(archive, is_compared=True, sha256=task.sha256)) is None


class TestProcesses:
    """Which process does a task, and how long workers live."""

    def test_this_process_is_first(self, cache: Path) -> None:
        """A worker starts only while this process is busy, and is idle afterwards."""
        workers = UnpackingWorkers(cache, most=1)
        with workers.take(LARGE) as first:
            assert first is None
            assert workers.count == 0
            for _ in range(2):
                with workers.take(LARGE) as second:
                    assert isinstance(second, UnpackingWorker)
        assert workers.count == 1
        with workers.take(LARGE) as third:
            assert third is None
        workers.close()

    def test_complete_archives(self, cache: Path) -> None:
        """A worker gets a task once the archive is complete; this process need not wait for it."""
        workers = UnpackingWorkers(cache, most=1)
        waited: list[str] = []
        with (
            workers.take(LARGE, lambda: waited.append("this process")),
            workers.take(LARGE, lambda: waited.append("worker")),
        ):
            assert waited == ["worker"]
        workers.close()

    @pytest.mark.parametrize("reason", ["no more", "embedded", "cannot start", "little to do"])
    def test_waiting(self, cache: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
        """Where no worker can start, or is worth it, a task waits until this process is idle."""
        if reason == "embedded":
            monkeypatch.setattr(sys, "executable", "/opt/app/bin/app")
        elif reason == "cannot start":
            monkeypatch.setattr(sys, "executable", "/missing/python3")
        workers = UnpackingWorkers(cache, most=0 if reason == "no more" else 1)
        done: list[UnpackingWorker | None] = []
        is_waiting = threading.Event()

        size = 1 if reason == "little to do" else LARGE

        def work() -> None:
            with workers.take(size, is_waiting.set) as process:
                done.append(process)

        thread = threading.Thread(target=work)
        with workers.take(LARGE):
            thread.start()
            assert is_waiting.wait(TIMEOUT)
            assert not done
        thread.join(TIMEOUT)
        assert done == [None]
        assert workers.count == 0

    def test_dead_worker(self, cache: Path, archive: Path) -> None:
        """A worker that has ended fails its tasks, however often it is asked."""
        worker = UnpackingWorker(cache)
        worker.end()
        assert [worker.run(task_for(archive)) for _ in range(2)] == [None, None]

    @pytest.mark.skipif(processor_count() < 2, reason="a worker needs a second processor")
    def test_beside_an_arriving_wheel(self, cache: Path, archive: Path, tmp_path: Path) -> None:
        """While this process waits for one wheel, a worker unpacks another one."""
        data = random.Random(1).randbytes(LARGE)
        other = build_wheel(tmp_path / "wheels", "other", "1", files={"other/data": data})
        store = WheelStore(Store(cache), has_workers=True)
        other_is_unpacked, first_is_read = threading.Event(), threading.Event()

        def unpack_other() -> None:
            assert first_is_read.wait(TIMEOUT)
            name = parse_wheel_filename(other.name)
            store.unpacked(other, name, sha256_of(other), tmp_path, where=other.name)
            other_is_unpacked.set()

        thread = threading.Thread(target=unpack_other)
        thread.start()
        source = Arriving(archive, first_is_read, other_is_unpacked)
        filename = parse_wheel_filename(archive.name)
        store.unpacked(
            source, filename, sha256_of(archive), tmp_path, where=archive.name, path=archive
        )
        thread.join(TIMEOUT)
        store.close()
        assert found(cache, other) is not None
        assert found(cache, archive) is not None

    @pytest.mark.skipif(processor_count() < 2, reason="a worker needs a second processor")
    def test_interruption(self, cache: Path, archive: Path, tmp_path: Path) -> None:
        """A worker that is ended while it unpacks a wheel leaves no part of it in the cache."""
        files: dict[str, bytes | str] = {f"other/{number}": b"" for number in range(3000)}
        files["other/data"] = random.Random(1).randbytes(LARGE)
        other = build_wheel(tmp_path / "wheels", "other", "1", files=files)
        store = WheelStore(Store(cache), has_workers=True)
        first_is_read, is_finished = threading.Event(), threading.Event()

        class Interrupted(Progress):
            """The progress of an interrupted command."""

            def advance(self, _count: int) -> None:
                raise KeyboardInterrupt

            def unpacking(self, _total: int) -> Progress:
                return self

        def unpack_first() -> None:
            source = Arriving(archive, first_is_read, is_finished)
            name = parse_wheel_filename(archive.name)
            store.unpacked(source, name, sha256_of(archive), tmp_path, where="", path=archive)

        def end_worker() -> None:
            while not list(cache.rglob("*.part")) and not is_finished.wait(0.001):
                pass
            store.close()

        threads = [threading.Thread(target=target) for target in (unpack_first, end_worker)]
        for thread in threads:
            thread.start()
        assert first_is_read.wait(TIMEOUT)
        name, sha256 = parse_wheel_filename(other.name), sha256_of(other)
        with pytest.raises(KeyboardInterrupt):
            store.unpacked(other, name, sha256, None, where="", progress=Interrupted())
        leftovers = list(cache.rglob("*.part"))
        is_finished.set()
        for thread in threads:
            thread.join(TIMEOUT)
        assert not leftovers
