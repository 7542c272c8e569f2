"""The workers of `wheelfit.building.batch`: this process, others, or a cluster.

All of them are executors of `concurrent.futures`. Only this module imports the libraries of
clusters, and it converts their errors to those of wheelfit.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, InvalidStateError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from wheelfit.errors import NeedsExtra, UsageError, WorkerLost, reporting_os_errors
from wheelfit.wheels.processors import processor_count
from wheelfit.wheels.zip_writing import deflate
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import EnvironmentUnavailable, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import ProcessPoolExecutor

    from distributed import Client
    from distributed import Future as Task

Result = TypeVar("Result")

_CONNECT_TIMEOUT = 15.0
# Wheels must be compressed to the same bytes everywhere (B-39), which replacements of zlib break.
_SAMPLE = b"".join(b"package/%d.py,sha256=%d,%d\n" % (n, n * n * 7919, n) for n in range(400))
_COUNT_LIFETIME = 2.0
"""Seconds for which a known number of workers of a cluster is valid."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of an executor."""

    executor: Executor
    count: Callable[[], int]
    """Returns the number of parallel items, which may change in a cluster."""
    description: str
    """Their description, such as ``2 processes``."""
    call_on_all: Callable[[Callable[..., Any], Any], Mapping[str, Any]] | None = None
    """Calls a function with an argument on every worker; None if they are on this machine."""

    @property
    def are_remote(self) -> bool:
        """Whether they may be on other machines, with other files under the same paths."""
        return self.call_on_all is not None

    def check_files(self, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Check that every worker sees the same files under the same paths.

        :raises EnvironmentUnavailable: ``unfit-workers``; a worker sees other files.
        """
        if self.call_on_all is None:
            return
        expected = {os.path.realpath(file): _file_status(os.path.realpath(file)) for file in files}
        with ExitStack() as stack:
            for folder in folders:
                token = stack.enter_context(_token_file(folder))
                expected[token] = _file_status(token)
            for worker, statuses in self.call_on_all(_file_statuses, tuple(expected)).items():
                if isinstance(statuses, BaseException):
                    raise _unfit_workers(f"a worker cannot read files: {statuses}", worker)
                for path, status in zip(expected, statuses, strict=True):
                    if status != expected[path]:
                        raise _unfit_workers(
                            f"the worker has other files in {Path(path).parent} than this machine",
                            worker,
                            "put the files on a file system that all workers share, under the "
                            "same path",
                        )


@contextmanager
def open_workers(
    url: str | None = None, *, jobs: int | None = None, timeout: float = _CONNECT_TIMEOUT
) -> Iterator[Workers]:
    """Open workers; an error in the block stops local work in progress.

    :param url: None or ``processes`` for this machine, else ``dask://host:port``.
    :param jobs: the number of local processes; 1: this one; None: 1, or one for each processor with
        ``processes``.
    :param timeout: seconds to wait for a scheduler, and for its first worker.
    :raises UsageError: there is no such executor, or a cluster was given a number of processes.
    :raises NeedsExtra: the library for it is not installed.
    :raises Unreachable: no scheduler answers.
    :raises EnvironmentUnavailable: ``unfit-workers``; there are no workers, or they have no
        wheelfit, or another one.
    """
    if url is None or url == "processes":
        count = jobs or (1 if url is None else processor_count())
        with _ThisProcess() if count == 1 else _Processes(count) as executor:
            description = "this process" if count == 1 else f"{count} processes"
            yield Workers(executor, lambda: count, description)
        return
    if not url.startswith(("dask://", "dask+tls://")):
        raise UsageError(
            f"unknown executor {url!r}", hint="processes, or dask://host:port of a scheduler"
        )
    if jobs is not None:
        raise UsageError(
            "-j is the number of processes on this machine; a cluster has its own workers",
            hint="leave out -j or --executor",
        )
    with _dask_client(url, timeout) as client:
        yield _dask_workers(client, timeout)


def _unfit_workers(
    message: str, where: str | None, hint: str | None = None
) -> EnvironmentUnavailable:
    return EnvironmentUnavailable(message, code="unfit-workers", where=where, hint=hint)


class _ThisProcess(Executor):
    """An executor that does the work at once, in this process."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - raised by `Future.result`
            future.set_exception(error)
        return future


class _Processes(Executor):
    """Processes of this machine, replaced when they break.

    Their interpreters are spawned, since threads of this process may have acquired locks. Callers
    get other futures than those of the pool: its thread fails if it breaks after one of them was
    cancelled (Python 3.11).
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None
        self._tasks: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        try:
            task = self._open_pool().submit(_call, fn, args, kwargs)
        except BrokenExecutor:
            self.shutdown()
            self._pool = None
            task = self._open_pool().submit(_call, fn, args, kwargs)
        future: Future[Result] = Future()
        task.add_done_callback(lambda task: _copy_result(task.result, future))
        self._tasks = [*(other for other in self._tasks if not other.done()), task]
        self._end_forgotten_tasks()
        return future

    def _end_forgotten_tasks(self) -> None:
        """End tasks that a broken pool has forgotten.

        Before Python 3.13 a pool does not lock itself while it breaks: a task that is submitted at
        that moment is never ended, and may keep it from ending the others.
        """
        if self._pool is not None and self._pool._broken:  # noqa: SLF001
            self._pool.shutdown()
            for task in self._tasks:
                with suppress(InvalidStateError):  # it has ended
                    task.set_exception(BrokenExecutor("a process ended"))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as in Executor
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for work in progress; after an error terminate it, so that it is undone."""
        if kind is not None and self._pool is not None:
            # Python 3.14 has a public method, `terminate_workers`.
            for process in list((self._pool._processes or {}).values()):  # noqa: SLF001
                process.terminate()
        self.shutdown(cancel_futures=kind is not None)

    def _open_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor

            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._count, context, initializer=_initialise_process)
        return self._pool


def _copy_result(
    result: Callable[[], Result],
    future: Future[Result],
    translate: Callable[[BaseException], BaseException] = lambda error: error,
) -> None:
    """Copy the result or the error of another task into a future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(result())
    except BaseException as error:  # noqa: BLE001 - raised by `Future.result`
        future.set_exception(translate(error))


class _Terminated(BaseException):
    """Raised when this process receives a signal to stop."""


_is_working = False


def _initialise_process() -> None:
    """Prepare a process for work: it ends with its parent, and ignores the terminal."""
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()


def _terminate(*_: object) -> None:
    """Terminate the process; work in progress undoes its writes first."""
    if _is_working:
        raise _Terminated
    os._exit(143)


def _call(fn: Callable[..., Result], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    global _is_working  # noqa: PLW0603 - for the signal handler
    _is_working = True
    try:
        return fn(*args, **kwargs)
    except _Terminated:
        os._exit(143)
    finally:
        _is_working = False


@contextmanager
def _dask_client(url: str, timeout: float) -> Iterator[Client]:
    try:
        from distributed import Client  # half a second
    except ImportError:
        raise NeedsExtra("dask", "distributed") from None
    # Broken connections are reported by our error instead of its log.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    scheme, _, rest = url.partition("://")
    address = f"{'tls' if scheme == 'dask+tls' else 'tcp'}://{rest}"
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise Unreachable(
            f"no scheduler answers: {str(error).splitlines()[0] if str(error) else 'in time'}",
            where=url,
            hint="check that `dask scheduler` runs there and its port is reachable",
        ) from None
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler may have stopped
            client.close(timeout=timeout)


def _dask_workers(client: Client, timeout: float) -> Workers:
    address = client.scheduler.address if client.scheduler is not None else ""
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        message = "the scheduler has no workers"
        raise _unfit_workers(message, address, "start some: `dask worker`") from None

    def call_on_all(function: Callable[..., Any], argument: Any) -> Mapping[str, Any]:
        answers: dict[str, Any] = client.run(function, argument, on_error="return")
        return answers

    for worker, version in call_on_all(metadata.version, "wheelfit").items():
        if version != __version__:
            raise _other_version(worker, version)
    expected = deflate([_SAMPLE])
    # The workers have this version of wheelfit, so its functions can be called there.
    for worker, compressed in call_on_all(deflate, [_SAMPLE]).items():
        if compressed != expected:
            message = "zlib of the worker compresses to other bytes, so wheels would depend on it"
            raise _unfit_workers(message, worker, "use the same build of Python everywhere")
    executor = _Dask(client)
    return Workers(executor, executor.count, f"Dask at {address}", call_on_all)


def _other_version(worker: str, version: object) -> EnvironmentUnavailable:
    if isinstance(version, str):
        message = f"the worker has wheelfit {version}, and this machine {__version__}"
    elif isinstance(version, metadata.PackageNotFoundError):
        message = "the worker has no wheelfit"
    else:
        message = f"the version of wheelfit on the worker cannot be read: {version}"
    return _unfit_workers(message, worker, f"install wheelfit=={__version__} where workers run")


class _Dask(Executor):
    """An executor for a Dask cluster, with wheelfit's errors.

    Dask's own executor keeps each result on the cluster until Python's garbage collection.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: dict[Future[Any], Task[Any]] = {}
        self._counted = (0.0, 0)

    def count(self) -> int:
        """Return the number of threads in the cluster; it may change at any time."""
        counted_at, count = self._counted
        if time.monotonic() - counted_at > _COUNT_LIFETIME or not counted_at:
            with suppress(Exception):  # tasks report it if the scheduler has stopped
                count = sum(self._client.nthreads().values())
            self._counted = (time.monotonic(), count)
        return max(1, count)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            task = self._client.submit(fn, *args, pure=False, **kwargs)
        except (OSError, RuntimeError) as error:
            raise _as_wheelfit_error(error) from None
        self._tasks[future] = task
        future.add_done_callback(self._release)
        task.add_done_callback(
            lambda task: _copy_result(partial(_result, task), future, _as_wheelfit_error)
        )
        return future

    def _release(self, future: Future[Any]) -> None:
        task = self._tasks.pop(future)
        with suppress(Exception):  # the scheduler may have stopped
            if future.cancelled():
                task.cancel()
            task.release()


def _result(task: Task[Result]) -> Result:
    if task.status == "cancelled":
        raise CancelledError
    return task.result()


def _as_wheelfit_error(error: BaseException) -> BaseException:
    import asyncio

    from distributed.scheduler import KilledWorker

    # Errors of the work itself are results, so these errors are of Dask or the system.
    system_errors = (CancelledError, asyncio.CancelledError, OSError, RuntimeError)
    if isinstance(error, system_errors):
        return Unreachable("the scheduler stopped or cancelled the work", hint="run it again")
    if isinstance(error, KilledWorker):
        return WorkerLost("the process that worked on it ended")
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("wheelfit"):
        return _unfit_workers(
            "a worker has no wheelfit, or another version of it",
            None,
            "see docs/reference/executors.md for what workers need",
        )
    return error


def _file_status(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        status = Path(path).stat()
        return status.st_size, int(status.st_mtime)
    return None


def _file_statuses(paths: tuple[str, ...]) -> list[tuple[int, int] | None]:
    return [_file_status(path) for path in paths]


@contextmanager
def _token_file(folder: Path) -> Iterator[str]:
    """Write a file with a unique name and size into a folder; remove it after the block."""
    path = Path(os.path.realpath(folder), f".wheelfit-{secrets.token_hex(8)}")
    with reporting_os_errors("the folder cannot be written", where=str(folder)):
        path.write_bytes(b"x" * (1 + secrets.randbelow(4096)))
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
