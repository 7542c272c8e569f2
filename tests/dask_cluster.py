"""Start a scheduler and workers of Dask as processes, as an administrator does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from programs import until

_SETTINGS = {
    "DASK_DISTRIBUTED__COMM__RETRY__COUNT": "2",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
}
_QUIET = ["--no-dashboard", "--host", "127.0.0.1"]


class DaskCluster:
    """Hold a scheduler and its workers; all end with the block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        where = self._folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", ["--port", "0", "--scheduler-file", str(where), *_QUIET]
        )
        until(lambda: where.exists() and where.stat().st_size)
        self.address: str = json.loads(where.read_bytes())["address"]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """How wheelfit names it."""
        return self.address.replace("tcp://", "dask://")

    def add_workers(self, count: int, *, before: str = "", flags: tuple[str, ...] = ()) -> None:
        """Start workers, and wait until the scheduler knows them.

        :param before: Python code that is run first.
        :param flags: of their Python.
        """
        options = ["--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder)]
        first = len(self.workers)
        for _ in range(count):
            worker = self._start("worker", [self.address, *options, *_QUIET], before, flags)
            self.workers.append(worker)
        for number, worker in enumerate(self.workers[first:], first + 1):
            self._until_registered(self._folder / f"{number}.log", worker)

    @staticmethod
    def _until_registered(log: Path, worker: subprocess.Popen[bytes]) -> None:
        until(lambda: "Registered to" in log.read_text() or worker.poll() is not None)
        assert worker.poll() is None, log.read_text()

    def _start(
        self, what: str, options: list[str], before: str = "", flags: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        program = f"{before}\nfrom distributed.cli.dask_{what} import main\nmain()"
        environ = {**os.environ, **_SETTINGS}
        name = "scheduler" if what == "scheduler" else str(len(self.workers) + 1)
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *flags, "-c", program, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                cwd=self._folder,
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process
