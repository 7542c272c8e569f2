"""Do several things that wait for servers at the same time, and end at once when one fails."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


__all__ = ["at_once"]


def __dir__() -> list[str]:
    return __all__


_T = TypeVar("_T")
_R = TypeVar("_R")
_PATIENCE = 2.0
"""Seconds that the others get to clean up once one has failed."""


def at_once(
    things: Sequence[_T],
    work: Callable[[_T], _R],
    *,
    most: int,
    cancel: Callable[[], None] | None = None,
) -> list[_R]:
    """Do something with each of several things; the first failure, or Ctrl-C, ends it all.

    The threads are none of an executor: Python would wait at its end for one that waits for a
    server that has fallen silent.

    :param things: with what.
    :param work: what to do; called from several threads.
    :param most: how many at the same time.
    :param cancel: ends what is under way. Without it, whatever is under way has nothing to clean
        up, and is not waited for.
    :return: what ``work`` returned, in the order of the things.
    """
    results: dict[int, _R] = {}
    failures: list[BaseException] = []
    waiting = list(enumerate(things))[::-1]
    news = threading.Condition()

    def run() -> None:
        while True:
            with news:
                if not waiting or failures:
                    return
                number, thing = waiting.pop()
            try:
                result = work(thing)
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                with news:
                    failures.append(error)
                    news.notify_all()
                return
            with news:
                results[number] = result
                news.notify_all()

    def wait() -> None:
        with news:
            while not failures and len(results) < len(things):
                news.wait()
        if failures:
            raise failures[0]

    threads = [
        threading.Thread(target=run, name="at once", daemon=True)
        for _ in range(min(most, len(things)))
    ]
    try:
        for thread in threads:
            thread.start()
        wait()
    except BaseException:
        with news:
            waiting.clear()
        if cancel is not None:
            cancel()
            patience = time.monotonic() + _PATIENCE
            for thread in threads:
                if thread.is_alive():
                    thread.join(max(0.0, patience - time.monotonic()))
        raise
    return [results[number] for number in range(len(things))]
