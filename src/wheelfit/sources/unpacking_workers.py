"""Worker processes that unpack wheels and compare them with their archives.

Python runs the code of one thread at a time, and a wheel of many small files is mostly code. So
while this process unpacks one wheel, workers take the others: on two processors, installing 99
wheels of 17,000 files took 28 % less time, and comparing them 33 %.

A worker reads an archive and writes an entry of the cache, nothing else. If it fails, for whatever
reason, this process does the task itself, so errors are the same with and without workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from wheelfit.wheels.processors import processor_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAX_WORKERS = 2  # each needs up to 50 MB
_WORK_PER_WORKER = 8 << 20
"""Bytes of waiting archives for which a worker is started; its start takes as long as these."""
_WORK_PER_WHEEL = 1 << 18
"""Bytes that take as long as everything about a wheel that does not depend on its size."""
# Without `site`, which would take as long as the task; so the folders of modules are passed on.
_OPTIONS = ("-I", "-S", "-B", "-c")
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from wheelfit.sources.worker_program import main; main(sys.argv[1])"
)


class UnpackingTask(Struct, frozen=True):
    """A wheel to unpack into the cache, or to compare with its archive."""

    archive: str
    filename: str
    sha256: str
    where: str
    by_content: bool
    """Whether an entry that exists already is replaced, since its contents are not known."""
    compared_hashes: dict[str, str] | None = None
    """The hashes that the archive of an unpacked wheel must have; None: unpack it."""


class UnpackingResult(Struct, frozen=True):
    """The result of a task that did not fail."""

    changed: str | None = None
    """The name of a file that differs from the archive."""


class UnpackingWorker:
    """A process that carries out one task after the other.

    :param cache_folder: the cache that its wheels are unpacked into.
    :raises OSError: it cannot be started.
    """

    def __init__(self, cache_folder: Path) -> None:
        # A relative one is the current folder, which may be anybody's.
        module_folders = filter(os.path.isabs, sys.path)
        self._process = subprocess.Popen(
            [sys.executable, *_OPTIONS, _PROGRAM, cache_folder, *module_folders],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, task: UnpackingTask) -> UnpackingResult | None:
        """Carry out a task; return None if that failed."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None  # noqa: S101, PT018 - for the type checker
        try:
            requests.write(msgspec.json.encode(task) + b"\n")
            requests.flush()
            return msgspec.json.decode(answers.readline(), type=UnpackingResult | None)
        except (OSError, ValueError, msgspec.MsgspecError):  # it has ended
            return None

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # it may hold a task that the worker did not read
                    stream.close()


class UnpackingWorkers:
    """This process and its workers, which are started when they are first needed.

    :param cache_folder: the cache that wheels are unpacked into.
    :param most: the most workers; None: so many that each processor has a process.
    """

    def __init__(self, cache_folder: Path, *, most: int | None = None) -> None:
        self._cache_folder = cache_folder
        self._most = min(processor_count() - 1, _MAX_WORKERS) if most is None else most
        self._started: list[UnpackingWorker] = []
        self._idle: list[UnpackingWorker | None] = [None]  # None is this process
        self._work = 0
        self._changed = threading.Condition()

    @property
    def count(self) -> int:
        """The number of workers that were started."""
        return len(self._started)

    @contextmanager
    def take(
        self, size: int, wait: Callable[[], None] = lambda: None
    ) -> Iterator[UnpackingWorker | None]:
        """Yield a process for a task, busy until the end of the block: a worker; None: this one.

        :param size: bytes of the archive.
        :param wait: called unless this process is idle, to wait until the archive is complete.
        """
        with self._changed:
            is_this_idle = None in self._idle
            if is_this_idle:
                self._idle.remove(None)
        worker = None
        if not is_this_idle:
            wait()
            worker = self._next(size)
        try:
            yield worker
        finally:
            with self._changed:
                self._idle.append(worker)
                self._changed.notify()

    def _next(self, size: int) -> UnpackingWorker | None:
        """Return the next idle process; start a worker if none is idle and there is much to do."""
        from wheelfit.wheels.entry_points import is_interpreter_name

        # Programs with an embedded Python must not be started again.
        can_start = is_interpreter_name(Path(sys.executable or "").name)
        with self._changed:
            self._work += size + _WORK_PER_WHEEL
            while not self._idle:
                worth = min(self._most, self._work // _WORK_PER_WORKER)
                if can_start and len(self._started) < worth:
                    try:
                        self._started.append(UnpackingWorker(self._cache_folder))
                    except OSError:
                        self._most = 0  # no more processes are allowed
                    else:
                        return self._started[-1]
                self._changed.wait()
            return self._idle.pop()

    def close(self) -> None:
        """End the workers, from any thread; tasks that they have not finished fail."""
        with self._changed:
            self._most = 0
            started, self._started = self._started, []
        for worker in started:
            worker.end()
