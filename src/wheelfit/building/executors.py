"""The workers of `wheelfit.building.batch`: this process, others, or a cluster.

All of them are executors of `concurrent.futures`. This is the one importer of the libraries of
clusters; their errors are turned into ours here.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
import time
import zlib
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from wheelfit.errors import NeedsExtra, UsageError, WorkerLost
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import EnvironmentUnavailable, FileProblem, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from concurrent.futures import ProcessPoolExecutor

    from distributed import Client
    from distributed import Future as Task

Result = TypeVar("Result")

_PATIENCE = 15.0
_HINT = "docs/reference/executors.md says what workers need"
# The compressor of RECORD must give the same bytes everywhere (B-39); replacements of zlib do not.
_SAMPLE = b"".join(b"package/%d.py,sha256=%d,%d\n" % (n, n * n * 7919, n) for n in range(400))
_LEVEL = 6
_RECOUNT = 2.0
"""Seconds for which a known number of workers of a cluster is valid."""


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of an executor."""

    executor: Executor
    count: Callable[[], int]
    """Returns the number of parallel items; of a cluster it may change."""
    words: str
    """Their description, as ``2 processes``."""
    on_all: Callable[[Callable[..., Any], Any], Mapping[str, Any]] | None = None
    """Calls a function with an argument on every worker; None if they are on this machine."""

    @property
    def are_elsewhere(self) -> bool:
        """Whether they may be on other machines, where paths can mean other files."""
        return self.on_all is not None

    def must_see(self, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Check that every worker sees the same files under the same paths.

        :raises EnvironmentUnavailable: ``unfit-workers``; a worker sees other files.
        """
        if self.on_all is None:
            return
        expected = {os.path.realpath(file): _look(os.path.realpath(file)) for file in files}
        with ExitStack() as stack:
            for folder in folders:
                token = stack.enter_context(_token(folder))
                expected[token] = _look(token)
            for worker, digests in self.on_all(_look_at_all, tuple(expected)).items():
                if isinstance(digests, BaseException):
                    raise _unfit(f"a worker cannot look at files: {digests}", worker)
                for path, seen in zip(expected, digests, strict=True):
                    if seen != expected[path]:
                        raise _unfit(
                            f"it does not see {Path(path).parent} as this machine does",
                            worker,
                            "put the files on a file system that all workers share, under the "
                            "same path",
                        )


@contextmanager
def open_workers(
    url: str | None = None, *, jobs: int | None = None, patience: float = _PATIENCE
) -> Iterator[Workers]:
    """Open workers; an error in the block stops local work in progress.

    :param url: None or ``processes`` for this machine, else ``dask://host:port``.
    :param jobs: the number of local processes; 1: this one; None: 1, or one for each processor with
        ``processes``.
    :param patience: seconds to wait for a scheduler, and for its first worker.
    :raises UsageError: there is no such executor, or a cluster was given a number of processes.
    :raises NeedsExtra: the library for it is not installed.
    :raises Unreachable: no scheduler answers.
    :raises EnvironmentUnavailable: ``unfit-workers``; there are no workers, or they have no
        wheelfit, or another one.
    """
    if url is None or url == "processes":
        # The processors of this process, not of the machine: a container gets less.
        count = jobs or (1 if url is None else len(os.sched_getaffinity(0)) if _LINUX else _CORES)
        with _Here() if count == 1 else _Processes(count) as executor:
            words = "this process" if count == 1 else f"{count} processes"
            yield Workers(executor, lambda: count, words)
        return
    if urlsplit(url).scheme not in ("dask", "dask+tls") or "://" not in url:
        raise UsageError(
            f"unknown executor {url!r}", hint="processes, or dask://host:port of a scheduler"
        )
    if jobs is not None:
        raise UsageError(
            "-j is how many processes work here; a cluster has workers of its own",
            hint="leave out -j or --executor",
        )
    with _dask_client(url, patience) as client:
        yield _dask_workers(client, patience)


def _unfit(words: str, where: str | None, hint: str | None = None) -> EnvironmentUnavailable:
    return EnvironmentUnavailable(words, code="unfit-workers", where=where, hint=hint)


_LINUX = hasattr(os, "sched_getaffinity")
_CORES = os.cpu_count() or 1


class _Here(Executor):
    """An executor that does the work at once, in this process."""

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever waits for the result gets it
            future.set_exception(error)
        return future


class _Processes(Executor):
    """Processes of this machine, replaced when they break.

    Their interpreters are spawned, since our threads may hold locks at any time. The futures of the
    pool stay here: its thread ends with an error if it breaks after other code has cancelled one of
    them (Python 3.11).
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        try:
            task = self._running().submit(_called, fn, args, kwargs)
        except BrokenExecutor:
            self.shutdown()
            self._pool = None
            task = self._running().submit(_called, fn, args, kwargs)
        future: Future[Result] = Future()
        task.add_done_callback(lambda task: _pass_on(task.result, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as its base has it
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for work in progress; after an error terminate it, so that it is undone."""
        if kind is not None and self._pool is not None:
            # There is a public way from Python 3.14 on.
            for process in list((self._pool._processes or {}).values()):  # noqa: SLF001
                process.terminate()
        self.shutdown(cancel_futures=kind is not None)

    def _running(self) -> ProcessPoolExecutor:
        if self._pool is None:
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor

            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._count, context, initializer=_begin_process)
        return self._pool


def _pass_on(
    result: Callable[[], Result],
    future: Future[Result],
    translate: Callable[[BaseException], BaseException] = lambda error: error,
) -> None:
    """Set the result of another task, or its error, in a future."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(result())
    except BaseException as error:  # noqa: BLE001 - whoever waits for the result must get one
        future.set_exception(translate(error))


class _Ended(BaseException):
    """Raised when this process receives a signal to stop."""


_working = False


def _begin_process() -> None:
    """Prepare a process for work: it ends with its parent, and ignores the terminal."""
    import multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, daemon=True).start()


def _end(*_: object) -> None:
    """Terminate the process; a running write is undone first."""
    if _working:
        raise _Ended
    os._exit(143)


def _called(fn: Callable[..., Result], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
    global _working  # noqa: PLW0603 - a signal handler looks at it
    _working = True
    try:
        return fn(*args, **kwargs)
    except _Ended:
        os._exit(143)
    finally:
        _working = False


@contextmanager
def _dask_client(url: str, patience: float) -> Iterator[Client]:
    try:
        from distributed import Client  # half a second
    except ImportError:
        raise NeedsExtra("dask", "distributed") from None
    # Its log about broken connections is replaced by our error.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    scheme, _, rest = url.partition("://")
    address = f"{'tls' if scheme == 'dask+tls' else 'tcp'}://{rest}"
    try:
        client = Client(address, timeout=patience, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise Unreachable(
            f"no scheduler answers: {str(error).splitlines()[0] if str(error) else 'in time'}",
            where=url,
            hint="check that `dask scheduler` runs there and its port is reachable",
        ) from None
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close(timeout=patience)


def _dask_workers(client: Client, patience: float) -> Workers:
    address = client.scheduler.address if client.scheduler is not None else ""
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        message = "the scheduler has no workers"
        raise _unfit(message, address, "start some: `dask worker`") from None

    def on_all(function: Callable[..., Any], argument: Any) -> Mapping[str, Any]:
        answers: dict[str, Any] = client.run(function, argument, on_error="return")
        return answers

    for worker, version in on_all(metadata.version, "wheelfit").items():
        if version != __version__:
            raise _other_version(worker, version)
    here = _packed_sample(_SAMPLE)
    # They have the version of this code, so it can be called there.
    for worker, packed in on_all(_packed_sample, _SAMPLE).items():
        if packed != here:
            message = "its zlib packs in another way, so results would depend on who made them"
            raise _unfit(message, worker, "use the same build of Python everywhere")
    executor = _Dask(client)
    return Workers(executor, executor.count, f"Dask at {address}", on_all)


def _other_version(worker: str, version: object) -> EnvironmentUnavailable:
    if isinstance(version, str):
        words = f"it has wheelfit {version}, here it is {__version__}"
    elif isinstance(version, metadata.PackageNotFoundError):
        words = "it has no wheelfit"
    else:
        words = f"it cannot say which wheelfit it has: {version}"
    return _unfit(words, worker, f"install wheelfit=={__version__} where workers run")


class _Dask(Executor):
    """An executor over Dask, with wheelfit's errors.

    Its own executor keeps each result on the cluster until Python happens to look for cycles.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tasks: dict[Future[Any], Task[Any]] = {}
        self._counted = (0.0, 0)

    def count(self) -> int:
        """Return the number of threads in the cluster; it may change at any time."""
        when, count = self._counted
        if time.monotonic() - when > _RECOUNT or not when:
            with suppress(Exception):  # the results show whether the scheduler is gone
                count = sum(self._client.nthreads().values())
            self._counted = (time.monotonic(), count)
        return max(1, count)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            task = self._client.submit(fn, *args, pure=False, **kwargs)
        except (OSError, RuntimeError) as error:
            raise _in_our_words(error) from None
        self._tasks[future] = task
        future.add_done_callback(self._let_go)
        task.add_done_callback(lambda task: _pass_on(partial(_result, task), future, _in_our_words))
        return future

    def _let_go(self, future: Future[Any]) -> None:
        task = self._tasks.pop(future)
        with suppress(Exception):  # the scheduler may be gone
            if future.cancelled():
                task.cancel()
            task.release()


def _result(task: Task[Result]) -> Result:
    if task.status == "cancelled":
        raise CancelledError
    return task.result()


def _in_our_words(error: BaseException) -> BaseException:
    import asyncio

    from distributed.scheduler import KilledWorker

    # Errors of the work itself come back as results, so an error of the system is Dask's own.
    gone = (CancelledError, asyncio.CancelledError, OSError, RuntimeError)
    if isinstance(error, gone):
        return Unreachable("the scheduler stopped or gave up the work", hint="run it again")
    if isinstance(error, KilledWorker):
        return WorkerLost("the process that worked on it ended")
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("wheelfit"):
        return _unfit("a worker has no wheelfit, or another one", None, _HINT)
    return error


def _packed_sample(sample: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(sample) + packer.flush()


def _look(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        status = Path(path).stat()
        return status.st_size, int(status.st_mtime)
    return None


def _look_at_all(paths: tuple[str, ...]) -> list[tuple[int, int] | None]:
    return [_look(path) for path in paths]


@contextmanager
def _token(folder: Path) -> Iterator[str]:
    """Write a file with a unique name and size into a folder, for the length of the block."""
    path = Path(os.path.realpath(folder), f".wheelfit-{secrets.token_hex(8)}")
    try:
        path.write_bytes(b"x" * (1 + secrets.randbelow(4096)))
    except OSError as error:
        raise FileProblem(
            f"the folder cannot be written: {error.strerror}", where=str(folder)
        ) from None
    try:
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
