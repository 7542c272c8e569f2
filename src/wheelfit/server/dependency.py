"""What a server needs and does not have in its own hands: a database, a storage, an upstream index.

Any of them may stop answering. Then three things keep the server alive: few threads wait for it at
once (a bulkhead), each waits for a limited time (a deadline), and once it is known to be silent
nobody waits at all until it answers again (a circuit breaker).
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from wheelfit.errors import StorageUnavailable, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self


__all__ = ["Dependency", "Turn"]


def __dir__() -> list[str]:
    return __all__


_PROBE_WITHIN = 0.8
"""Seconds after which a probe without an answer is told of."""
_PAUSE = 0.5
"""Seconds between two probes of a dependency that is silent."""
_EVERY = 1.0
"""Seconds between two probes of a dependency that answers."""
_NEVER = float("inf")


class Turn:
    """The time that one thread waits for a dependency: a context manager.

    :param dependency: what is asked.
    :param until: when it is broken off, by the system's monotonic clock.
    :param is_long: as for `Dependency.asked`.
    :param is_elsewhere: as for `Dependency.asked`.
    """

    # A class, for generators take three times as long, and this is done for every request.
    __slots__ = ("_dependency", "give_up", "is_elsewhere", "is_long", "key", "since", "until")

    def __init__(
        self,
        dependency: Dependency,
        until: float = _NEVER,
        *,
        is_long: bool = False,
        is_elsewhere: bool = False,
    ) -> None:
        self._dependency = dependency
        self.key = threading.get_ident()
        """The thread."""
        self.since = time.monotonic()
        """When it began to wait."""
        self.until = until
        self.is_long = is_long
        self.is_elsewhere = is_elsewhere
        self.give_up: Callable[[], None] | None = None
        """Called in another thread, breaks off what the thread waits for; None: nothing can."""

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

    :param name: how people know it, as ``database``.
    :param most: threads that wait for it at once.
    :param prompt: seconds in which it answers if it is well. If those who wait wait for longer,
        further ones are refused.
    :param failures: answers in a row that fail to come before nobody asks any more.
    :param pause: seconds until somebody tries again.
    :param refuse: makes the error of those who are refused.
    :param is_silence: tells whether an error means that there was no answer.
    :param changed: told when its `trouble` is another one.
    """

    def __init__(
        self,
        name: str,
        *,
        most: int = 16,
        prompt: float = 2.0,
        failures: int = 3,
        pause: float = _PAUSE,
        refuse: Callable[[str], WheelfitError] = lambda text: StorageUnavailable(
            text, trouble="silent"
        ),
        is_silence: Callable[[Exception], bool] = lambda error: (
            isinstance(error, StorageUnavailable) and error.trouble == "silent"
        ),
        changed: Callable[[Dependency], None] = lambda _self: None,
    ) -> None:
        self.name = name
        """How people know it."""
        self.changed = changed
        """Told when its `trouble` is another one."""
        self.reason: Exception | None = None
        """What went wrong last; not for strangers."""
        self._most = most
        self._prompt = prompt
        self._failures = failures
        self._pause = pause
        self._refuse = refuse
        self._is_silence = is_silence
        self._turns: dict[int, Turn] = {}
        self._long: dict[int, Turn] = {}
        self._room = threading.Condition()
        self._failed = 0
        self._is_open = False
        self._next_try = 0.0
        self._is_watched = False
        self._probe: Turn | None = None
        self._prober = 0
        self._trouble = ""
        self._told = ""

    @property
    def is_silent(self) -> bool:
        """Whether nobody asks it anything at the moment."""
        return self._is_open or self._is_probe_late(self._prompt)

    @property
    def trouble(self) -> str:
        """What is wrong with it, for strangers: no addresses; empty if nothing is known to be."""
        # Sooner than requests are refused, which a slow disk is no reason for.
        is_silent = self._is_open or self._is_probe_late(_PROBE_WITHIN)
        return "does not answer" if is_silent else self._trouble

    def _is_probe_late(self, seconds: float) -> bool:
        probe = self._probe
        return probe is not None and time.monotonic() - probe.since > seconds

    def asked(
        self, *, within: float = _NEVER, is_long: bool = False, is_elsewhere: bool = False
    ) -> AbstractContextManager[Turn]:
        """Ask it something; whoever asks already may go on.

        On entering, raises what `refuse` makes if it is silent, or too many wait already.

        :param within: seconds after which `look` breaks it off.
        :param is_long: it may take minutes, and has a limited number of threads elsewhere.
        :param is_elsewhere: another one may be asked, as the host of a file that an index lists:
            it takes a thread too, and says nothing of this one.
        """
        key = threading.get_ident()
        inside = self._turns.get(key) or self._long.get(key)
        if inside is None and key == self._prober:
            inside = self._probe
        if inside is not None:
            return nullcontext(inside)
        until = _NEVER if within == _NEVER else time.monotonic() + within
        return Turn(self, until, is_long=is_long, is_elsewhere=is_elsewhere)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Learn from what happens whether it answers.

        :raises WheelfitError: it is silent.
        """
        self.check()
        error: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._learn(error)

    def check(self) -> None:
        """Refuse whoever is about to need it.

        :raises WheelfitError: it is silent.
        """
        if self.is_silent and not self._may_try():
            raise self._refused(f"the {self.name} does not answer")

    def look(self) -> None:
        """Break off those who have waited too long; to be called several times a second."""
        now = time.monotonic()
        is_silent = self.is_silent
        self._tell()  # of a probe that has yet to fail
        with self._room:
            turns = [*self._turns.values(), *self._long.values()]
            if self._probe is not None:
                turns.append(self._probe)
        for turn in turns:
            # Once nothing answers, what began before that will not end either.
            until = min(turn.until, turn.since + 2 * self._prompt) if is_silent else turn.until
            if now > until and turn.give_up is not None:
                give_up, turn.give_up = turn.give_up, None
                give_up()

    def probe(self, ask: Callable[[], None]) -> None:
        """Find out whether it answers, also if it was silent.

        :param ask: asks for little.
        """
        now = time.monotonic()
        self._prober = threading.get_ident()
        self._probe = Turn(self, now + 2 * self._prompt)
        try:
            ask()
        except Exception as error:  # noqa: BLE001 - a probe that fails is an answer too
            self.reason = error
            trouble = error.trouble if isinstance(error, StorageUnavailable) else ""
            is_silent = self._is_silence(error)
            self._trouble = "has no room" if trouble == "full" else "fails"
        else:
            is_silent = False
            self._trouble = ""
        self._probe, self._prober = None, 0
        if is_silent:
            self._open()
        else:
            self._close()

    def watch(self, ask: Callable[[], None], over: threading.Event) -> None:
        """Probe it again and again; the work of a thread.

        :param ask: as for `probe`.
        :param over: ends it.
        """
        self._is_watched = True
        try:
            while True:
                self.probe(ask)
                if over.wait(self._pause if self._is_open else _EVERY):
                    return
        finally:
            self._is_watched = False

    def _refused(self, sentence: str) -> WheelfitError:
        error = self._refuse(sentence)
        vars(error)["dependency"] = self.name
        return error

    # --- bulkhead ---------------------------------------------------------------------

    def enter(self, turn: Turn) -> None:
        """Begin a turn: wait for room."""
        if not turn.is_elsewhere:
            self.check()
        with self._room:
            if turn.is_long:
                self._long[turn.key] = turn
                return
            while len(self._turns) >= self._most:
                oldest = min(one.since for one in self._turns.values())
                left = oldest + self._prompt - time.monotonic()
                if left <= 0:
                    raise self._refused(f"too many wait for the {self.name} already")
                self._room.wait(left)
            self._turns[turn.key] = turn

    def leave(self, turn: Turn, error: BaseException | None) -> None:
        """End a turn.

        :param error: what it ended with.
        """
        with self._room:
            if self._long.pop(turn.key, None) is None:
                del self._turns[turn.key]
                self._room.notify()
        if not turn.is_elsewhere:
            self._learn(error)

    # --- circuit breaker --------------------------------------------------------------

    def _may_try(self) -> bool:
        """Tell whether this thread may try whether it answers again."""
        if self._is_watched:
            return False
        with self._room:
            now = time.monotonic()
            if now < self._next_try:
                return False
            self._next_try = now + self._pause
            return True

    def _learn(self, error: BaseException | None) -> None:
        """Learn from how asking ended."""
        if error is not None:
            if not isinstance(error, Exception):
                return
            # Of two, one inside the other, the inner one has failed.
            is_own = vars(error).setdefault("dependency", self.name) == self.name
            if is_own and self._is_silence(error):
                self._failed += 1
                self.reason = error
                if self._failed >= self._failures:
                    self._open()
                return
        self._failed = 0
        if self._is_open:
            self._close()

    def _open(self) -> None:
        self._next_try = time.monotonic() + self._pause
        self._is_open = True
        self._tell()

    def _close(self) -> None:
        self._failed = 0
        self._is_open = False
        self._tell()

    def _tell(self) -> None:
        with self._room:
            trouble = self.trouble
            if self._told == trouble:
                return
            self._told = trouble
        with suppress(Exception):  # of the log; nothing here may fail because of it
            self.changed(self)
