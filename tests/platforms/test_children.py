"""P-37: the deadline is kept whatever the child does."""

from __future__ import annotations

import sys
import time

import pytest

from wheelfit.platforms import children
from wheelfit.platforms.children import Ending

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def _run(script: str, deadline: float = 20.0) -> children.Answer:
    environ = {"PATH": "/usr/bin:/bin"}
    return children.run(["/bin/sh", "-c", script], environ=environ, deadline=deadline)


def test_output_and_errors_are_kept_apart() -> None:
    """P-36: what goes to standard error never mixes with the answer."""
    answer = _run("echo answer; echo noise >&2; exit 3")
    assert answer == children.Answer(Ending.EXITED, 3, b"answer\n", b"noise\n")


def test_a_crash_is_data() -> None:
    """P-71: a signal is an ending like others."""
    assert _run("kill -9 $$") == children.Answer(Ending.KILLED, 9)


def test_a_program_that_does_not_exist_is_data() -> None:
    """P-71: nothing is raised for a child that cannot be started."""
    answer = children.run(["/no/such/program"], environ={}, deadline=1)
    assert answer.ending is Ending.NOT_STARTED
    assert b"/no/such/program" in answer.errors


def test_a_hanging_child_is_killed_at_the_deadline() -> None:
    """P-37: the deadline, then the kill."""
    started = time.monotonic()
    answer = _run("echo before; exec sleep 30", deadline=0.3)
    assert time.monotonic() - started < 5
    assert answer.ending is Ending.LATE
    assert answer.output == b"before\n"


def test_a_child_that_cannot_be_collected_is_abandoned() -> None:
    """P-37: pipes held by someone else are not waited for without limit."""
    started = time.monotonic()
    answer = _run("echo before; sleep 4", deadline=0.3)  # killing the shell leaves the sleeper
    assert time.monotonic() - started < 3.5
    assert answer.ending is Ending.LATE
    assert answer.output == b"before\n"


def test_only_the_given_environment_is_seen() -> None:
    """P-70: the child's environment is what was given in."""
    answer = children.run(["/usr/bin/env"], environ={"ONLY": "this"}, deadline=10)
    assert answer.output == b"ONLY=this\n"
