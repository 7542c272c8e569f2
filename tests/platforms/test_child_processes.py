"""P-37: the deadline is kept whatever the child does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from programs import is_running, until

from wheelfit_runtime.platforms import child_processes
from wheelfit_runtime.platforms.child_processes import Ending

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


SLEEPER = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
"""A program that outlives the kill, in a session of its own."""


def _run_in_python(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that complains of everything."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def _run(script: str, deadline: float = 20.0) -> child_processes.Answer:
    environ = {"PATH": "/usr/bin:/bin"}
    return child_processes.run(["/bin/sh", "-c", script], environ=environ, deadline=deadline)


def test_output_and_errors_are_kept_apart() -> None:
    """P-36: what goes to standard error never mixes with the answer."""
    answer = _run("echo answer; echo noise >&2; exit 3")
    assert answer == child_processes.Answer(Ending.EXITED, 3, b"answer\n", b"noise\n")


def test_a_crash_is_data() -> None:
    """P-71: a signal is an ending like others."""
    assert _run("kill -9 $$") == child_processes.Answer(Ending.KILLED, 9)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="nobody tells that a status is lost")
def test_a_child_that_somebody_else_collects_is_uncertain() -> None:
    """P-71: where the application ignores SIGCHLD a crash looks like success."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        answer = _run("echo half; kill -9 $$")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (answer.output, answer.is_uncertain) == (b"half\n", True)
    assert not _run("exit 0").is_uncertain


def test_a_program_that_does_not_exist_is_data() -> None:
    """P-71: nothing is raised for a child that cannot be started."""
    answer = child_processes.run(["/no/such/program"], environ={}, deadline=1)
    assert answer.ending is Ending.NOT_STARTED
    assert b"/no/such/program" in answer.errors


def test_a_hanging_child_is_killed_at_the_deadline() -> None:
    """P-37: the deadline, then the kill."""
    answer = _run("echo before; exec sleep 1000", deadline=0.5)
    assert answer.ending is Ending.LATE
    assert answer.output == b"before\n"


def test_a_child_that_cannot_be_collected_is_abandoned() -> None:
    """P-37: pipes held by someone else are not waited for without limit."""
    answer = _run(f"{sys.executable} -S -c '{SLEEPER}' & sleep 1000", deadline=1)
    assert answer.ending is Ending.LATE
    os.kill(int(answer.output), signal.SIGKILL)  # it is still there


def test_what_the_child_started_is_killed_with_it() -> None:
    """P-37: a kill ends the whole session, so no grandchild goes on."""
    answer = _run("sleep 1000 & echo $!; exec sleep 1000", deadline=0.5)
    assert answer.ending is Ending.LATE
    # What was killed is collected by another process, a little later.
    until(lambda: not is_running(int(answer.output)))


def test_a_child_is_out_of_reach_of_the_terminal() -> None:
    """P-37: it leads a session, so neither a prompt nor an interrupt at a terminal reaches it."""
    program = "import os; print(os.getsid(0) == os.getpid())"
    answer = child_processes.run([sys.executable, "-c", program], environ={}, deadline=20)
    assert answer.output == b"True\n"


@pytest.mark.parametrize("script", ["yes", "yes >&2"])
def test_a_flood_is_cut_off(script: str) -> None:
    """P-37: endless output and errors cost neither memory nor the whole deadline."""
    command, environ = ["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}
    answer = child_processes.run(command, environ=environ, deadline=60, limit=100_000)
    assert answer.ending is Ending.FLOODED
    assert len(answer.output + answer.errors) == 100_000


def test_output_up_to_the_limit_is_kept_whole() -> None:
    """P-37: a long answer within the limit arrives as it was written."""
    program = "import sys; sys.stdout.write('x' * 300_000)"
    answer = child_processes.run(
        [sys.executable, "-c", program], environ={}, deadline=30, limit=300_001
    )
    assert answer == child_processes.Answer(Ending.EXITED, 0, b"x" * 300_000)


def test_an_abandoned_child_neither_delays_the_end_nor_is_complained_about() -> None:
    """P-37: who leaves a child behind exits at once, without a word, warnings as errors."""
    program = (
        "import subprocess, gc\n"
        "from wheelfit_runtime.platforms import child_processes\n"
        "child = subprocess.Popen(['sleep', '1000'], stdout=-3, stderr=-3)\n"
        "print(child.pid, flush=True)\n"
        "child_processes.abandon(child)\n"
        "del child; gc.collect()\n"
    )
    completed = _run_in_python(program)
    os.kill(int(completed.stdout), signal.SIGKILL)  # it is still there
    assert (completed.returncode, completed.stderr) == (0, "")


@pytest.mark.integration
def test_a_child_whose_pipes_are_held_does_not_delay_the_end() -> None:
    """P-37: the threads that listened to it are not waited for either."""
    program = (
        "import sys\n"
        "from wheelfit_runtime.platforms import child_processes\n"
        f"script = sys.executable + ' -S -c \"{SLEEPER}\" & sleep 1000'\n"
        "answer = child_processes.run(['/bin/sh', '-c', script], environ={}, deadline=2.0)\n"
        "print(answer.ending, int(answer.output))\n"
    )
    completed = _run_in_python(program)
    ending, pid = completed.stdout.split()
    os.kill(int(pid), signal.SIGKILL)  # it is still there
    assert (completed.returncode, ending, completed.stderr) == (0, "late", "")


# --- threads, where there is no interpreter to start ------------------------------------------


def test_a_thread_answers_as_a_child_would() -> None:
    """P-71: a frozen application asks in a thread, and gets the same kind of answer."""

    def ask(trace: Callable[[str], None]) -> bytes:
        trace("calling nvmlInit_v2")
        return b"answer"

    answer = child_processes.run_in_thread(ask, 10)
    assert answer == child_processes.Answer(Ending.EXITED, 0, b"answer", b"calling nvmlInit_v2\n")


def test_a_thread_that_raises_is_a_script_that_failed() -> None:
    """P-71: an exception is data."""

    def ask(_: Callable[[str], None]) -> bytes:
        raise OSError("no such library")

    assert child_processes.run_in_thread(ask, 10) == child_processes.Answer(
        Ending.EXITED, 1, b"", b"OSError: no such library\n"
    )


def test_a_thread_that_hangs_is_left_behind() -> None:
    """P-37: the deadline holds for threads, and what was called last is known."""
    forever = threading.Event()

    def ask(trace: Callable[[str], None]) -> bytes:
        trace("calling cuDriverGetVersion")
        forever.wait(20)
        return b""

    answer = child_processes.run_in_thread(ask, 0.2)
    forever.set()
    assert answer == child_processes.Answer(Ending.LATE, errors=b"calling cuDriverGetVersion\n")


def test_only_the_given_environment_is_seen() -> None:
    """P-70: the child's environment is what was given in."""
    answer = child_processes.run(["/usr/bin/env"], environ={"ONLY": "this"}, deadline=10)
    assert answer.output == b"ONLY=this\n"
