"""Keep the time of every child process that detection asks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.children import Ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit_runtime.platforms.children import Answer, Processes, Question


@dataclass(frozen=True, slots=True)
class Asked:
    """Say how one child process went."""

    name: str
    """What was asked, as ``nvidia-smi -q``."""
    seconds: float
    """How long it took."""
    ending: Ending
    code: int
    """Exit status, or the number of the signal that ended it."""

    def __str__(self) -> str:
        words = {
            Ending.EXITED: f"exit status {self.code}",
            Ending.KILLED: f"crashed with signal {self.code}",
            Ending.LATE: "no answer within its time; ended",
            Ending.FLOODED: "wrote too much; ended",
            Ending.NOT_STARTED: "could not be started",
        }
        return words.get(self.ending, str(self.ending))


class TimedProcesses:
    """Pass questions on, and keep how long each took (it implements ``Processes``).

    :param processes: who answers.
    :param clock: returns seconds.
    """

    def __init__(
        self, processes: Processes, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._processes = processes
        self._clock = clock
        self._asked: list[Asked] = []

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What was asked so far, in the order in which it was answered."""
        return tuple(self._asked)

    def ask(self, question: Question) -> Answer:
        """Ask, and keep the time."""
        started = self._clock()
        answer = self._processes.ask(question)
        seconds = self._clock() - started
        self._asked.append(Asked(question.name, seconds, answer.ending, answer.code))
        return answer
