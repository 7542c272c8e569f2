"""Start early what will be asked for soon, and ask for nothing twice."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from wheelfit.sources.progress import NO_PROGRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.repository import Repository


__all__ = ["Prefetching"]


def __dir__() -> list[str]:
    return __all__


_T = TypeVar("_T")


class Prefetching:
    """Remember every result of another repository, and fetch ahead in threads.

    What was begun ahead is delivered by the later ordinary call: the result, or
    the error, which is raised there and only there. Equal calls give equal
    results however many threads took part, even if the server changes
    meanwhile. Downloads are not remembered: they are files.

    Use it as a context manager, or close it: threads still waiting are told to
    stop.

    :param repository: what does the work.
    :param threads: how many requests may run ahead at once.
    """

    def __init__(self, repository: Repository, *, threads: int = 8) -> None:
        self._repository = repository
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._tasks: dict[Hashable, _Task] = {}
        self._lock = threading.Lock()
        self.name = repository.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Begin nothing more, and wait for what is running."""
        with self._lock:
            pool, self._pool = self._pool, None
            self._threads = 0
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    # --- ahead ----------------------------------------------------------------------

    def prefetch_projects(self, names: Iterable[NormalizedName]) -> None:
        """Begin to fetch the pages of projects that will be asked for."""
        for name in names:
            self._begin(("project", name), partial(self._repository.project, name))

    def prefetch_metadata(self, file: File) -> None:
        """Begin to fetch the METADATA of a wheel that will be asked for."""
        self._begin(("metadata", file), partial(self._repository.metadata, file))

    def prefetch_read(self, file: File) -> None:
        """Begin to fetch a small file that will be asked for."""
        self._begin(("read", file), partial(self._repository.read, file))

    def _begin(self, key: Hashable, work: Callable[[], object]) -> None:
        with self._lock:
            if key in self._tasks or not self._threads:
                return
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "wheelfit-prefetch")
            task = self._tasks[key] = _Task(work)
            with suppress(RuntimeError):  # the interpreter is shutting down: run it when asked for
                self._pool.submit(task.run)

    # --- when it is asked for -----------------------------------------------------------

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it is not known."""
        return self._result(("project", name), partial(self._repository.project, name))

    def read(self, file: File) -> bytes:
        """Return the content of a small file."""
        return self._result(("read", file), partial(self._repository.read, file))

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        return self._result(("metadata", file), partial(self._repository.metadata, file))

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel."""
        return self._result(("document", file), partial(self._repository.variant_document, file))

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Put the whole file into a folder."""
        return self._repository.download(file, folder, progress)

    def _result(self, key: Hashable, work: Callable[[], _T]) -> _T:
        with self._lock:
            task = self._tasks.get(key)
            if task is None:
                task = self._tasks[key] = _Task(work)
        # If it was begun ahead but waits for a free thread, this thread does it.
        task.run()
        result: _T = task.future.result()
        return result


class _Task:
    """Do something once, in the first thread that comes."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._taken = threading.Lock()
        self.future: Future[Any] = Future()

    def run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return  # never released: somebody does it, or has done it
        try:
            self.future.set_result(self._work())
        except BaseException as error:  # noqa: BLE001 - belongs to whoever asks for the result
            self.future.set_exception(error)
