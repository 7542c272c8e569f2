"""Services that a server depends on: a database, a storage, an upstream index.

Any of them may stop answering. Then few threads wait for it at once (a bulkhead), each for a
limited time (a deadline), and none at all while it is known to be unresponsive (a circuit
breaker).
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from wheelfit.errors import StorageUnavailable
from wheelfit.sources.cached_pages import is_from_server
from wheelfit_runtime.errors import Unreachable, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self


_LATE_PROBE = 0.8
"""Seconds after which a probe without an answer is reported as a fault."""
_UNRESPONSIVE_PROBE_INTERVAL = 0.5
"""Seconds between two probes of an unresponsive dependency."""
_PROBE_INTERVAL = 1.0
"""Seconds between two probes of a responsive dependency."""
_NEVER = float("inf")
_RETRY_PAUSE = 1.0
"""Seconds between two tries of an index that does not answer."""


class DependencyUse:
    """The use of a dependency by one thread: a context manager.

    :param until: the deadline, by the system's monotonic clock.
    :param is_long: as for `Dependency.use`.
    :param uses_other_hosts: as for `Dependency.use`.
    """

    # A class: a generator would take three times as long, in every request.
    __slots__ = ("_dependency", "cancel", "is_long", "key", "since", "until", "uses_other_hosts")

    def __init__(
        self,
        dependency: Dependency,
        until: float = _NEVER,
        *,
        is_long: bool = False,
        uses_other_hosts: bool = False,
    ) -> None:
        self._dependency = dependency
        self.key = threading.get_ident()
        self.since = time.monotonic()
        self.until = until
        self.is_long = is_long
        self.uses_other_hosts = uses_other_hosts
        self.cancel: Callable[[], None] | None = None
        """Aborts, from another thread, the call that the thread waits for; None: impossible."""

    def __enter__(self) -> Self:
        self._dependency.enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._dependency.leave(self, error)


class Dependency:
    """A dependency, with a bulkhead, deadlines and a circuit breaker.

    The breaker opens after some failures in a row, or when a probe fails. While a thread runs
    `watch`, only a probe closes it again; otherwise one caller in each pause tries.

    :param max_threads: threads that may use it at once.
    :param usual_seconds: seconds in which it normally answers. If `max_threads` use it for longer,
        further threads are refused.
    :param failures: failures in a row that open the breaker.
    :param pause: seconds between two tries while the breaker is open.
    """

    def __init__(
        self,
        name: str,
        *,
        max_threads: int = 16,
        usual_seconds: float = 2.0,
        failures: int = 3,
        pause: float = _UNRESPONSIVE_PROBE_INTERVAL,
        make_error: Callable[[str], WheelfitError] = lambda text: StorageUnavailable(
            text, cause="unresponsive"
        ),
        is_unresponsive_error: Callable[[Exception], bool] = lambda error: (
            isinstance(error, StorageUnavailable) and error.cause == "unresponsive"
        ),
    ) -> None:
        self.name = name
        self.on_change: Callable[[Dependency], None] = lambda _self: None
        """Called after its `fault` has changed."""
        self.last_error: Exception | None = None
        """The last error; it may have addresses, which clients must not see."""
        self._max_threads = max_threads
        self._usual_seconds = usual_seconds
        self._failures = failures
        self._pause = pause
        self._make_error = make_error
        self._is_unresponsive_error = is_unresponsive_error
        self._uses: dict[int, DependencyUse] = {}
        self._long_uses: dict[int, DependencyUse] = {}
        self._condition = threading.Condition()
        self._failures_in_row = 0
        self._is_breaker_open = False
        self._next_try = 0.0
        self._is_watched = False
        self._probe: DependencyUse | None = None
        self._fault = ""
        self._reported_fault = ""

    @property
    def is_unresponsive(self) -> bool:
        """Whether callers are refused at the moment."""
        return self._is_breaker_open or self._is_probe_late(self._usual_seconds)

    @property
    def fault(self) -> str:
        """Its current fault, without addresses; empty: none."""
        # Reported before callers are refused: a slow disk is no reason to refuse them.
        is_unresponsive = self._is_breaker_open or self._is_probe_late(_LATE_PROBE)
        return "does not answer" if is_unresponsive else self._fault

    def _is_probe_late(self, seconds: float) -> bool:
        probe = self._probe
        return probe is not None and time.monotonic() - probe.since > seconds

    def use(
        self, *, timeout: float = _NEVER, is_long: bool = False, uses_other_hosts: bool = False
    ) -> AbstractContextManager[DependencyUse]:
        """Return a context in which this thread uses it; inside another use it has no effect.

        Entering it raises the error of `make_error` if the dependency is unresponsive, or too many
        threads use it.

        :param timeout: seconds after which `cancel_overdue` ends it.
        :param is_long: whether it may take minutes; `max_threads` does not include it then,
            because the number of such threads is limited elsewhere.
        :param uses_other_hosts: whether another host may be requested, as that of a listed file,
            whose success or failure is irrelevant to this dependency.
        """
        key = threading.get_ident()
        current = self._uses.get(key) or self._long_uses.get(key)
        if current is not None:
            return nullcontext(current)
        until = _NEVER if timeout == _NEVER else time.monotonic() + timeout
        return DependencyUse(self, until, is_long=is_long, uses_other_hosts=uses_other_hosts)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the success or failure of a block that `max_threads` does not include."""
        self.check()
        error: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._record(error)

    def check(self) -> None:
        """Raise the error of `make_error` if callers are refused."""
        if self.is_unresponsive and not self._may_try():
            raise self._refusal(f"the {self.name} does not answer")

    def cancel_overdue(self) -> None:
        """Cancel the uses that are past their deadlines; to be called several times a second."""
        now = time.monotonic()
        # An unresponsive dependency does not answer older calls either.
        longest = 2 * self._usual_seconds if self.is_unresponsive else _NEVER
        self._report()  # a late probe, which has not failed yet
        with self._condition:
            uses = [*self._uses.values(), *self._long_uses.values()]
        for use in uses:
            if now > min(use.until, use.since + longest):
                cancel, use.cancel = use.cancel, None
                if cancel is not None:
                    with suppress(Exception):  # the thread may have closed the connection
                        cancel()

    def probe(self, send_request: Callable[[], None]) -> None:
        """Send it a small request, even if it is unresponsive, and open or close the breaker."""
        probe = DependencyUse(self, time.monotonic() + 2 * self._usual_seconds, is_long=True)
        with self._condition:
            self._probe = self._long_uses[probe.key] = probe
        is_unresponsive, fault = False, ""
        try:
            send_request()
        except Exception as error:  # noqa: BLE001 - any error is the result of a probe
            self.last_error = error
            is_full = isinstance(error, StorageUnavailable) and error.cause == "full"
            is_unresponsive = self._is_unresponsive_error(error)
            fault = "is full" if is_full else "fails"
        finally:
            with self._condition:
                del self._long_uses[probe.key]
                # Together, so that it never seems to answer between the two.
                self._probe, self._is_breaker_open = None, is_unresponsive
        self._fault = fault
        if is_unresponsive:
            self._open_breaker()
        else:
            self._close_breaker()

    def watch(self, send_request: Callable[[], None], stop: threading.Event) -> None:
        """Probe it periodically until an event is set."""
        self._is_watched = True
        try:
            while True:
                self.probe(send_request)
                if stop.wait(self._pause if self._is_breaker_open else _PROBE_INTERVAL):
                    return
        finally:
            self._is_watched = False

    def _refusal(self, message: str) -> WheelfitError:
        error = self._make_error(message)
        vars(error)["dependency"] = self.name
        return error

    # --- bulkhead ---------------------------------------------------------------------

    def enter(self, use: DependencyUse) -> None:
        """Start a use, as soon as fewer than `max_threads` use it."""
        if not use.uses_other_hosts:
            self.check()
        with self._condition:
            if use.is_long:
                self._long_uses[use.key] = use
                return
            while len(self._uses) >= self._max_threads:
                oldest = min(active.since for active in self._uses.values())
                remaining = oldest + self._usual_seconds - time.monotonic()
                if remaining <= 0:
                    raise self._refusal(f"too many requests wait for the {self.name}")
                self._condition.wait(remaining)
            self._uses[use.key] = use

    def leave(self, use: DependencyUse, error: BaseException | None) -> None:
        """Finish a use."""
        with self._condition:
            if self._long_uses.pop(use.key, None) is None:
                del self._uses[use.key]
                self._condition.notify()
        if not use.uses_other_hosts:
            self._record(error)

    # --- circuit breaker --------------------------------------------------------------

    def _may_try(self) -> bool:
        """Return whether this caller may try it although the breaker is open."""
        if self._is_watched:
            return False
        with self._condition:
            now = time.monotonic()
            if now < self._next_try:
                return False
            self._next_try = now + self._pause
            return True

    def _record(self, error: BaseException | None) -> None:
        """Record a success or a failure."""
        if error is not None:
            if not isinstance(error, Exception):
                return
            # An error that passes through two dependencies is a failure of the inner one.
            is_own = vars(error).setdefault("dependency", self.name) == self.name
            if is_own and self._is_unresponsive_error(error):
                self._failures_in_row += 1
                self.last_error = error
                if self._failures_in_row >= self._failures:
                    self._open_breaker()
                return
        self._failures_in_row = 0
        if self._is_breaker_open:
            self._close_breaker()

    def _open_breaker(self) -> None:
        self._next_try = time.monotonic() + self._pause
        self._is_breaker_open = True
        self._report()

    def _close_breaker(self) -> None:
        self._failures_in_row = 0
        self._is_breaker_open = False
        self._report()

    def _report(self) -> None:
        with self._condition:
            fault = self.fault
            if self._reported_fault == fault:
                return
            self._reported_fault = fault
        with suppress(Exception):  # an error of the log must not reach callers
            self.on_change(self)


def upstream_dependency(url: str, max_threads: int) -> Dependency:
    """Return the `Dependency` of an upstream index.

    :param url: of the index, without credentials.
    :param max_threads: threads that may use it, or fetch files that it lists, at once.
    """
    return Dependency(
        "upstream index",
        max_threads=max_threads,
        failures=1,  # each has been tried again already
        pause=_RETRY_PAUSE,
        make_error=lambda text: Unreachable(text, hint="try again in a minute"),
        is_unresponsive_error=lambda error: (
            isinstance(error, Unreachable) and is_from_server(url, error)
        ),
    )
