"""Calls of a function for many items, by any `concurrent.futures` executor.

An item that fails, or kills its process, does not affect the others. Results come in the order of
the items, and no more items are in progress at once than workers need.

Items and results travel as bytes that are written and read here. So a result that cannot be sent is
the fault of its item, and not the end of the process that waits for it; and no library that moves
them has to understand them.
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
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import (
    EnvironmentUnavailable,
    FileProblem,
    UnexpectedStatus,
    Unreachable,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future

    from wheelfit.building.batch_record import WorkRecord
    from wheelfit.sources.progress import Progress

Item = TypeVar("Item")
Value = TypeVar("Value")

_AHEAD = 2
"""Batches that are under way for each worker, so that none waits for us."""
_LONGEST_PAUSE = 2.0
_PASSING = frozenset(
    [
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ETIMEDOUT,
        getattr(errno, "ESTALE", errno.EIO),  # of a network's file system; Windows has none
    ]
)
_SERVER_FAULT = 500


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
    def is_kept(self) -> bool:
        """Whether it was done in an earlier run."""
        return not self.attempts and self.error is None


def may_pass(error: BaseException) -> bool:
    """Return whether an error may pass; errors of wrong input never do."""
    if isinstance(error, Unreachable | EnvironmentBusy | WorkerLost | MemoryError):
        return True
    if isinstance(error, UnexpectedStatus):
        return error.status >= _SERVER_FAULT
    if isinstance(error, OSError):
        passing = (ConnectionError, TimeoutError, BlockingIOError, InterruptedError)
        return isinstance(error, passing) or error.errno in _PASSING
    if isinstance(error, WheelfitError):
        cause = error.__cause__ or error.__context__
        return isinstance(cause, OSError) and may_pass(cause)
    return False


@dataclass(slots=True)
class Batch(Generic[Item, Value]):
    """Items, and a function to call for each of them.

    An item is tried again after errors that may pass: its worker died, or a disk or a server
    failed. Items in progress when a worker died are tried again one by one, so that the item which
    kills it is identified and does not affect the others.
    """

    function: Callable[[Item], Value]
    """Of a module that workers can import, as its arguments are pickled. It may be called again for
    an item that it was interrupted in, or had ended for a worker that died."""
    items: Sequence[Item]
    _: KW_ONLY
    executor: Executor
    """After it breaks, it must accept further items."""
    workers: int | Callable[[], int] = 1
    """The number of parallel items; a function where that may change."""
    attempts: int = 3
    """The number of attempts at an item."""
    batch: int = 1
    """The number of items sent at once; more where sending takes as long as working."""
    record: WorkRecord[Item, Value] | None = None
    """The record of finished items, of this run and earlier ones."""
    progress: Progress = NO_PROGRESS
    weigh: Callable[[Item], int] = lambda _: 1
    """The weight of an item in the progress."""
    done: Callable[[Outcome[Item, Value]], None] = lambda _: None
    """Called with each outcome as soon as it is known, in any order."""
    pause: Callable[[float], None] = time.sleep
    """Waits before an item is tried again for a fault that may pass."""
    ended: dict[int, Outcome[Item, Value]] = field(default_factory=dict, init=False)
    begun: Counter[int] = field(default_factory=Counter, init=False)
    waiting: deque[int] = field(default_factory=deque, init=False)
    again: deque[int] = field(default_factory=deque, init=False)
    """Those that are tried again when the others are done."""
    suspects: deque[int] = field(default_factory=deque, init=False)
    """Those that were under way when a worker died."""
    under_way: dict[Future[list[bytes]], tuple[int, ...]] = field(default_factory=dict, init=False)

    def run(self) -> list[Outcome[Item, Value]]:
        """Return the outcome of each item, in their order.

        :raises KeyboardInterrupt: waiting items are given up, and finished ones are recorded.
        :raises EnvironmentUnavailable: ``unfit-workers``; workers have another wheelfit; no further
            item is started.
        """
        self.progress.start(sum(map(self.weigh, self.items)))
        for position, item in enumerate(self.items):
            value = None if self.record is None else self.record.value(item)
            if value is None:
                self.waiting.append(position)
            else:
                self._end(position, Outcome(item, value))
        try:
            while self._fill():
                ended, _ = wait(self.under_way, return_when=FIRST_COMPLETED)
                for future in ended:
                    self._take(future, self.under_way.pop(future))
        finally:
            for future in self.under_way:
                future.cancel()
        self.progress.done()
        return [self.ended[position] for position in range(len(self.items))]

    def _fill(self) -> bool:
        """Start as many items as possible; return whether any are in progress."""
        workers = self.workers() if callable(self.workers) else self.workers
        limit = workers * _AHEAD
        while not self.suspects and len(self.under_way) < limit:
            if self.waiting:
                count = min(max(1, self.batch), len(self.waiting))
                self._begin(tuple(self.waiting.popleft() for _ in range(count)))
            elif self.again:
                position = self.again.popleft()
                self.pause(min(_LONGEST_PAUSE, 0.125 * 2 ** self.begun[position]))
                self._begin((position,))
            else:
                break
        # One at a time and alone, to identify the item that killed a worker.
        while self.suspects and not self.under_way:
            self._begin((self.suspects.popleft(),))
        return bool(self.under_way)

    def _begin(self, positions: tuple[int, ...]) -> None:
        for position in positions:
            self.begun[position] += 1
        packed = _packed((self.function, [self.items[position] for position in positions]))
        try:
            future = self.executor.submit(_work, __version__, packed)
        except BrokenExecutor:
            self._lose(positions)
        else:
            self.under_way[future] = positions

    def _take(self, future: Future[list[bytes]], positions: tuple[int, ...]) -> None:
        try:
            answers = future.result()
        except (BrokenExecutor, WorkerLost):
            self._lose(positions)
            return
        except CancelledError:
            raise WorkerLost(
                "the worker cancelled the work",
                hint="check that the scheduler is running",
            ) from None
        for position, answer in zip(positions, answers, strict=True):
            value, error, passes, seconds = pickle.loads(answer)  # noqa: S301 - from our worker
            if error is None:
                item = self.items[position]
                if self.record is not None:
                    self.record.add(item, value)
                self._end(position, Outcome(item, value, None, self.begun[position], seconds))
            elif passes and self.begun[position] < self.attempts:
                self.again.append(position)
            else:
                self._fail(position, error, seconds)

    def _lose(self, positions: tuple[int, ...]) -> None:
        """Record that the worker of some items died."""
        for position in positions:
            if self.begun[position] < self.attempts:
                self.suspects.append(position)
                continue
            times = self.begun[position]
            self._fail(
                position,
                WorkerLost(
                    "the process that worked on it ended"
                    + (f", {times} times" if times > 1 else ""),
                    where=str(self.items[position]),
                    hint="see whether it needs more memory than there is (try -j 1)",
                ),
                0.0,
            )

    def _fail(self, position: int, error: WheelfitError, seconds: float) -> None:
        item = self.items[position]
        self._end(position, Outcome(item, None, error, self.begun[position], seconds))

    def _end(self, position: int, outcome: Outcome[Item, Value]) -> None:
        self.ended[position] = outcome
        self.done(outcome)
        self.progress.advance(self.weigh(outcome.item))


def _work(version: str, packed: bytes) -> list[bytes]:
    """Call the function for some items; every error is attributed to one of them."""
    if version != __version__:
        raise EnvironmentUnavailable(
            f"a worker has wheelfit {__version__}, here it is {version}",
            code="unfit-workers",
            hint="install the same version wherever workers run",
        )
    function, items = pickle.loads(packed)  # noqa: S301 - from who asks, as all that is done here
    return [_attempt(function, item) for item in items]


def _attempt(function: Callable[[Any], Any], item: Any) -> bytes:
    started = time.perf_counter()
    try:
        value = function(item)
        return _packed((value, None, False, time.perf_counter() - started))
    except Exception as error:  # noqa: BLE001 - no item may end the work on others
        seconds = time.perf_counter() - started
        return _packed((None, _in_family(error, item), may_pass(error), seconds))


def _in_family(error: Exception, item: object) -> WheelfitError:
    if isinstance(error, WheelfitError):
        return error
    if isinstance(error, OSError):
        where = error.filename if isinstance(error.filename, str) else str(item)
        return FileProblem(error.strerror or type(error).__name__, where=where)
    if isinstance(error, MemoryError):
        words = "not enough memory"
        return EnvironmentUnavailable(words, where=str(item), hint="try -j 1")
    import traceback  # only for an internal error

    return InternalError(
        f"unexpected error: {type(error).__name__}: {error}",
        code="work-failed",
        where=str(item),
        note="".join(traceback.format_exception(error)).rstrip(),
        hint="report it with this text",
    )


class _Pickler(pickle.Pickler):
    """A pickler that also takes mappings that cannot be changed."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, MappingProxyType):
            return _unchangeable, (dict(value),)
        return NotImplemented


def _unchangeable(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _packed(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()
