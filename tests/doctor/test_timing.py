"""The time of child processes."""

from __future__ import annotations

import sys

import pytest

from wheelfit.doctor.machine import TimedProbe, TimedProcesses
from wheelfit_runtime.platforms.child_processes import Answer, Ending, Question, RealProcesses


def test_answers_pass_through() -> None:
    """P-75: the answer is that of the child; name, time and ending are kept, in order."""
    ticks = iter([1.0, 3.5, 10.0, 10.25])
    timed = TimedProcesses(RealProcesses(), lambda: next(ticks))
    script = "import sys; print('told'); sys.exit(3)"
    good = timed.ask(Question("first", (sys.executable, "-c", script), {}, 60.0))
    bad = timed.ask(Question("second", ("/no such program",), {}, 60.0))
    assert (good.output.strip(), good.code) == (b"told", 3)
    assert bad.ending is Ending.NOT_STARTED
    assert timed.probes == [
        TimedProbe("first", 2.5, Ending.EXITED, 3),
        TimedProbe("second", 0.25, Ending.NOT_STARTED, 0),
    ]


@pytest.mark.parametrize("ending", list(Ending))
def test_every_ending_has_words(ending: Ending) -> None:
    """P-71: however a child ends, that is said in words."""

    class Fake:
        def ask(self, question: Question) -> Answer:
            del question
            return Answer(ending, 11)

    timed = TimedProcesses(Fake())
    timed.ask(Question("it", ("x",), {}, 1.0))
    (question,) = timed.probes
    assert " " in str(question)
