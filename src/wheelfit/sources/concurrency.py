"""Run calls that wait for servers concurrently, and end all of them when one fails."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_T = TypeVar("_T")
_R = TypeVar("_R")
_PATIENCE = 2.0
"""Seconds that the others get to clean up once one has failed."""
_QUIET = 0.03
"""Seconds in which nothing was finished, or the processor idle for most of them, after which one
thread seems not to be enough."""


def map_concurrently(
    arguments: Sequence[_T],
    function: Callable[[_T], _R],
    *,
    most: int,
    cancel: Callable[[], None] | None = None,
) -> list[_R]:
    """Call a function with each of several values; the first failure, or Ctrl-C, ends all calls.

    The threads are none of an executor: Python would wait at its end for one that waits for a
    server that has fallen silent. One begins; the others join it as soon as it has to wait, for
    what a cache has they would only hold each other up.

    :param arguments: the arguments, one call each.
    :param function: the function to call, from several threads.
    :param most: the most calls at the same time.
    :param cancel: ends what is under way. Without it, whatever is under way has nothing to clean
        up, and is not waited for.
    :return: the results of ``function``, in the order of ``arguments``.
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
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
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
                if changed.wait(_QUIET if len(threads) < thread_limit else None):
                    continue  # all is done, or one has failed
                is_idle = time.process_time() - used < _QUIET / 2
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
            patience = time.monotonic() + _PATIENCE
            for thread in threads:
                if thread.is_alive():
                    thread.join(max(0.0, patience - time.monotonic()))
        raise
    return [results[index] for index in range(len(arguments))]
