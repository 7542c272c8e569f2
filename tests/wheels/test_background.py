"""Calls in another thread: in order, and no more of them after a failure."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from wheelfit.wheels.background import BackgroundCalls


def test_calls_come_in_order_and_are_over_at_the_end() -> None:
    """Everything that was handed over is done when the block ends, in another thread."""
    done: list[tuple[int, int]] = []

    def call(item: int) -> None:
        done.append((item, threading.get_ident()))

    with BackgroundCalls(call) as hand_over:
        for number in range(100):
            hand_over(number)
    assert [number for number, _ in done] == list(range(100))
    assert threading.get_ident() not in {thread for _, thread in done}


def test_a_failure_ends_the_calls_and_is_raised() -> None:
    """What follows a failure is not done, and the caller learns of it."""
    done: list[int] = []

    def call(item: int) -> None:
        if item == 3:
            raise OSError("the disk is full")
        done.append(item)

    def work() -> None:
        with BackgroundCalls(call) as hand_over:
            for number in range(1000):
                hand_over(number)

    with pytest.raises(OSError, match="the disk is full"):
        work()
    assert done == [0, 1, 2]


def test_an_error_of_the_caller_ends_the_calls() -> None:
    """What waits when the caller fails is not done; the caller's error is the one raised."""
    done: list[int] = []
    has_begun, may_go_on = threading.Event(), threading.Event()

    def call(item: int) -> None:
        has_begun.set()
        assert may_go_on.wait(30)
        done.append(item)

    def work() -> None:
        with BackgroundCalls(call) as hand_over:
            hand_over(0)
            assert has_begun.wait(30)
            hand_over(1)
            threading.Timer(0.2, may_go_on.set).start()
            raise ValueError("RECORD cannot be read")

    with pytest.raises(ValueError, match="RECORD"):
        work()
    assert done == [0]


INTERRUPTED = """
import os, signal, time
from wheelfit.wheels.background import BackgroundCalls

def call(item):
    if item:
        print("called again")
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)

try:
    with BackgroundCalls(call) as hand_over:
        for item in range(9):  # eight of them wait, and so does the end
            hand_over(item)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of terminals")
def test_an_interruption_while_it_waits_for_the_end() -> None:
    """Ctrl-C lets the current call finish, no other one begin, and the process end."""
    completed = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True, timeout=60
    )
    assert (completed.stdout, completed.stderr) == ("interrupted\n", "")
