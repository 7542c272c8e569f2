"""Run calls that wait for servers concurrently, and end all of them when one fails."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_T = TypeVar("_T")
_R = TypeVar("_R")
_CLEAN_UP_TIMEOUT = 2.0
"""Seconds for the other calls to clean up once one has failed."""
_ONE_THREAD_TIME = 0.03
"""Seconds without a result, or with a mostly idle processor, after which more threads start."""


def map_concurrently(
    arguments: Sequence[_T],
    function: Callable[[_T], _R],
    *,
    most: int,
    cancel: Callable[[], None] | None = None,
) -> list[_R]:
    """Call a function with each of several arguments; the first failure, or Ctrl-C, ends all calls.

    No executor is used, since at exit Python would wait for a thread that waits for a silent
    server. The first thread starts alone, and the others when it has to wait: for results from a
    cache, more threads would only slow each other down.

    :param most: the most calls at the same time.
    :param cancel: cancels running calls, which are then waited for; None: they have nothing to
        clean up, and are not waited for.
    :return: the results in the order of the arguments.
    """
    results: dict[int, _R] = {}
    failures: list[BaseException] = []
    waiting = list(enumerate(arguments))[::-1]
    changed = threading.Condition()

    def run() -> None:
        while True:
            with changed:
                if not waiting or failures:
                    return
                index, argument = waiting.pop()
            try:
                result = function(argument)
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
                with changed:
                    failures.append(error)
                    changed.notify_all()
                return
            with changed:
                results[index] = result
                if len(results) == len(arguments):
                    changed.notify_all()

    def wait() -> None:
        with changed:
            while not failures and len(results) < len(arguments):
                done, used = len(results), time.process_time()
                if changed.wait(_ONE_THREAD_TIME if len(threads) < thread_limit else None):
                    continue  # all calls have finished, or one has failed
                is_idle = time.process_time() - used < _ONE_THREAD_TIME / 2
                if is_idle or len(results) == done:
                    start(thread_limit)
        if failures:
            raise failures[0]

    def start(count: int) -> None:
        while len(threads) < count:
            threads.append(threading.Thread(target=run, name="at once", daemon=True))
            threads[-1].start()

    thread_limit = min(most, len(arguments))
    threads: list[threading.Thread] = []
    try:
        start(min(1, thread_limit))
        wait()
    except BaseException:
        with changed:
            waiting.clear()
        if cancel is not None:
            cancel()
            deadline = time.monotonic() + _CLEAN_UP_TIMEOUT
            for thread in threads:
                if thread.is_alive():
                    thread.join(max(0.0, deadline - time.monotonic()))
        raise
    return [results[index] for index in range(len(arguments))]
