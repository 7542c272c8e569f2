"""How a child that asked a vendor's library ended, in words."""

from __future__ import annotations

import pytest

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.probes import child_answers

TRACE = b"\ncalling dlopen lib.so\nnoise\n\ncalling start\nmore noise"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(Ending.LATE, errors=TRACE), "it did not answer within 1.5 s (in start)"),
        (Answer(Ending.LATE), "it did not answer within 1.5 s"),
        (Answer(Ending.KILLED, 11, errors=TRACE), "it crashed with SIGSEGV (in start)"),
        (Answer(Ending.KILLED, 4711), "it crashed with signal 4711"),
        (Answer(Ending.FLOODED, errors=TRACE), "it wrote too much (in start)"),
        (Answer(Ending.NOT_STARTED, errors=b"?"), "it could not be queried: no child process"),
        (Answer(Ending.EXITED, 1, errors=TRACE), "it gave no valid answer (in start)"),
    ],
)
def test_every_ending_has_words(answer: Answer, words: str) -> None:
    """P-37, P-71: with the function that was called last, where the child told of it."""
    assert child_answers.missing_answer_reason(answer, "it", 1.5) == words


def test_what_is_left_behind_is_evidence() -> None:
    """P-71, P-75: how it ended, and the end of what it wrote, as one line."""
    long = Answer(Ending.EXITED, 3, errors=b"x" * 10_000 + b"\n\nlast \xff")
    ended, told = child_answers.evidence(long, "child")
    assert ended == Evidence("child", "exited, 3")
    assert told.source == "child, standard error"
    assert told.value.endswith("x; last �")
    assert len(told.value) <= 2_002
    assert child_answers.evidence(Answer(Ending.LATE), "child") == (Evidence("child", "late, 0"),)
