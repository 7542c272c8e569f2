"""Calls of a function for many items, by any `concurrent.futures` executor.

An item that fails, or kills its process, does not affect the others. Results come in the order of
the items, and no more items are in progress at once than workers need.

Items and results are sent as bytes that are pickled and unpickled here. So a result that cannot be
pickled is an error of its item only, and executors need not understand the values.
"""

from __future__ import annotations

import errno
import io
import pickle
import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, wait
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wheelfit.errors import EnvironmentBusy, InternalError, WorkerLost
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import (
    EnvironmentUnavailable,
    FileProblem,
    UnexpectedStatus,
    Unreachable,
    WheelfitError,
    os_reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future

    from wheelfit.building.batch_record import WorkRecord

Item = TypeVar("Item")
Value = TypeVar("Value")

_BATCHES_PER_WORKER = 2
"""Batches in progress for each worker, so that none is idle."""
_MAX_PAUSE = 2.0
"""The longest wait before another attempt at an item, in seconds."""
_TRANSIENT = frozenset(
    [
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ETIMEDOUT,
        getattr(errno, "ESTALE", errno.EIO),  # of network file systems; Windows does not define it
    ]
)
_SERVER_FAULT = 500
"""The lowest HTTP status of a failing server."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Item, Value]):
    """The outcome of one item."""

    item: Item
    value: Value | None = None
    """The result of the function; None too if it failed."""
    error: WheelfitError | None = None
    attempts: int = 0
    """The number of attempts; 0 if it was done in an earlier run."""
    seconds: float = 0.0
    """The duration of the last attempt."""

    @property
    def is_from_record(self) -> bool:
        """Whether it was done in an earlier run."""
        return not self.attempts and self.error is None


def is_transient(error: BaseException) -> bool:
    """Return whether a retry may succeed after an error; never for errors of the input."""
    if isinstance(error, Unreachable | EnvironmentBusy | WorkerLost | MemoryError):
        return True
    if isinstance(error, UnexpectedStatus):
        return error.status >= _SERVER_FAULT
    if isinstance(error, OSError):
        transient = (ConnectionError, TimeoutError, BlockingIOError, InterruptedError)
        return isinstance(error, transient) or error.errno in _TRANSIENT
    if isinstance(error, WheelfitError):
        cause = error.__cause__ or error.__context__
        return isinstance(cause, OSError) and is_transient(cause)
    return False


@dataclass(slots=True)
class Batch(Generic[Item, Value]):
    """Items, and a function to call for each of them.

    An item is tried again after transient errors: its worker died, or a disk or a server failed.
    Items in progress when a worker died are tried again one by one, so that the item which kills it
    is identified and does not affect the others.
    """

    function: Callable[[Item], Value]
    """A function of a module that workers can import. It may be called again for an item after an
    interruption, or after its worker died."""
    items: Sequence[Item]
    _: KW_ONLY
    executor: Executor
    """After it breaks, it must accept further items."""
    workers: int | Callable[[], int] = 1
    """The number of parallel items; a function where that may change."""
    attempts: int = 3
    """The number of attempts at an item."""
    batch_size: int = 1
    """The number of items sent at once; more than 1 if sending takes as long as the work."""
    record: WorkRecord[Item, Value] | None = None
    """The record of finished items, of this run and earlier ones."""
    progress: Progress = NO_PROGRESS
    size_of: Callable[[Item], int] = lambda _: 1
    """The weight of an item in the progress."""
    on_outcome: Callable[[Outcome[Item, Value]], None] = lambda _: None
    """Called with each outcome at once, in any order."""
    pause: Callable[[float], None] = time.sleep
    """Waits for some seconds before an item is tried again."""
    outcomes: dict[int, Outcome[Item, Value]] = field(default_factory=dict, init=False)
    attempt_counts: Counter[int] = field(default_factory=Counter, init=False)
    waiting: deque[int] = field(default_factory=deque, init=False)
    retries: deque[int] = field(default_factory=deque, init=False)
    """Items that are tried again when the others are done."""
    suspects: deque[int] = field(default_factory=deque, init=False)
    """Items in progress when a worker died."""
    running: dict[Future[list[bytes]], tuple[int, ...]] = field(default_factory=dict, init=False)

    def run(self) -> list[Outcome[Item, Value]]:
        """Return the outcome of each item, in the order of the items.

        :raises KeyboardInterrupt: no waiting item is started; finished ones are recorded.
        :raises EnvironmentUnavailable: ``unfit-workers``; workers have another version of wheelfit;
            no further item is started.
        """
        self.progress.start(sum(map(self.size_of, self.items)))
        for position, item in enumerate(self.items):
            value = None if self.record is None else self.record.value(item)
            if value is None:
                self.waiting.append(position)
            else:
                self._finish(position, Outcome(item, value))
        try:
            while self._submit_items():
                finished, _ = wait(self.running, return_when=FIRST_COMPLETED)
                for future in finished:
                    self._collect(future, self.running.pop(future))
        finally:
            for future in self.running:
                future.cancel()
        self.progress.done()
        return [self.outcomes[position] for position in range(len(self.items))]

    def _submit_items(self) -> bool:
        """Start as many items as possible; return whether any are in progress."""
        workers = self.workers() if callable(self.workers) else self.workers
        max_running = workers * _BATCHES_PER_WORKER
        while not self.suspects and len(self.running) < max_running:
            if self.waiting:
                count = min(max(1, self.batch_size), len(self.waiting))
                self._submit(tuple(self.waiting.popleft() for _ in range(count)))
            elif self.retries:
                position = self.retries.popleft()
                self.pause(min(_MAX_PAUSE, 0.125 * 2 ** self.attempt_counts[position]))
                self._submit((position,))
            else:
                break
        # One at a time and alone, to identify the item that killed a worker.
        while self.suspects and not self.running:
            self._submit((self.suspects.popleft(),))
        return bool(self.running)

    def _submit(self, positions: tuple[int, ...]) -> None:
        for position in positions:
            self.attempt_counts[position] += 1
        request = _pickled((self.function, [self.items[position] for position in positions]))
        try:
            future = self.executor.submit(_work, __version__, request)
        except BrokenExecutor:
            self._handle_dead_worker(positions)
        else:
            self.running[future] = positions

    def _collect(self, future: Future[list[bytes]], positions: tuple[int, ...]) -> None:
        try:
            answers = future.result()
        except (BrokenExecutor, WorkerLost):
            self._handle_dead_worker(positions)
            return
        except CancelledError:
            raise WorkerLost(
                "the worker cancelled the work",
                hint="check that the scheduler is running",
            ) from None
        for position, answer in zip(positions, answers, strict=True):
            value, error, may_retry, seconds = pickle.loads(answer)  # noqa: S301 - from our worker
            if error is None:
                item = self.items[position]
                if self.record is not None:
                    self.record.add(item, value)
                self._finish(
                    position, Outcome(item, value, None, self.attempt_counts[position], seconds)
                )
            elif may_retry and self.attempt_counts[position] < self.attempts:
                self.retries.append(position)
            else:
                self._fail(position, error, seconds)

    def _handle_dead_worker(self, positions: tuple[int, ...]) -> None:
        """Record that the worker of some items died."""
        for position in positions:
            if self.attempt_counts[position] < self.attempts:
                self.suspects.append(position)
                continue
            times = self.attempt_counts[position]
            self._fail(
                position,
                WorkerLost(
                    "the process that worked on it ended"
                    + (f", {times} times" if times > 1 else ""),
                    where=str(self.items[position]),
                    hint="it may need more memory than is available (try -j 1)",
                ),
                0.0,
            )

    def _fail(self, position: int, error: WheelfitError, seconds: float) -> None:
        item = self.items[position]
        self._finish(position, Outcome(item, None, error, self.attempt_counts[position], seconds))

    def _finish(self, position: int, outcome: Outcome[Item, Value]) -> None:
        self.outcomes[position] = outcome
        self.on_outcome(outcome)
        self.progress.advance(self.size_of(outcome.item))


def _work(version: str, request: bytes) -> list[bytes]:
    """Call the function for some items; every error is attributed to one of them."""
    if version != __version__:
        raise EnvironmentUnavailable(
            f"a worker has wheelfit {__version__}, here it is {version}",
            code="unfit-workers",
            hint="install the same version wherever workers run",
        )
    function, items = pickle.loads(request)  # noqa: S301 - from the process that started this one
    return [_attempt(function, item) for item in items]


def _attempt(function: Callable[[Any], Any], item: Any) -> bytes:
    started = time.perf_counter()
    try:
        value = function(item)
        return _pickled((value, None, False, time.perf_counter() - started))
    except Exception as error:  # noqa: BLE001 - an item must not affect the others
        seconds = time.perf_counter() - started
        return _pickled((None, _as_wheelfit_error(error, item), is_transient(error), seconds))


def _as_wheelfit_error(error: Exception, item: object) -> WheelfitError:
    if isinstance(error, WheelfitError):
        return error
    if isinstance(error, OSError):
        where = error.filename if isinstance(error.filename, str) else str(item)
        return FileProblem(os_reason(error), where=where)
    if isinstance(error, MemoryError):
        return EnvironmentUnavailable("not enough memory", where=str(item), hint="try -j 1")
    import traceback  # only for an internal error

    return InternalError(
        f"unexpected error: {type(error).__name__}: {error}",
        code="work-failed",
        where=str(item),
        note="".join(traceback.format_exception(error)).rstrip(),
        hint="report it with this text",
    )


class _Pickler(pickle.Pickler):
    """A pickler that supports `MappingProxyType` too."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, MappingProxyType):
            return _mapping_proxy, (dict(value),)
        return NotImplemented


def _mapping_proxy(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _pickled(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()
