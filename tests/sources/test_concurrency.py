"""Several things at the same time."""

from __future__ import annotations

import threading
import time

import pytest

from wheelfit.sources.concurrency import map_concurrently


def test_results_in_order() -> None:
    """Whoever is done first, the results come in the order of the things."""
    second = threading.Event()

    def work(thing: str) -> str:
        if thing == "a":
            assert second.wait(20)
        else:
            second.set()
        return thing * 2

    assert map_concurrently(["a", "b", "c"], work, most=2) == ["aa", "bb", "cc"]


def test_nothing_to_do() -> None:
    """Nothing gives nothing."""
    assert map_concurrently([], str, most=2) == []


def test_not_more_than_wanted() -> None:
    """There are never more at the same time than allowed."""
    lock = threading.Lock()
    running: list[int] = []
    most = 0

    def work(thing: int) -> None:
        nonlocal most
        with lock:
            running.append(thing)
            most = max(most, len(running))
        with lock:
            running.remove(thing)

    map_concurrently(range(50), work, most=3)
    assert most <= 3


def test_many_short_waits() -> None:
    """What waits a little for each thing, as for a server nearby, is joined by others, too."""
    names: set[int] = set()

    def work(_thing: int) -> None:
        names.add(threading.get_ident())
        time.sleep(0.01)

    map_concurrently(range(60), work, most=3)
    assert len(names) == 3


def test_the_first_failure_ends_it() -> None:
    """What has not begun does not begin, what is under way is cancelled, and cleans up."""
    begun: list[int] = []
    cancelled, is_clean = threading.Event(), threading.Event()
    other = threading.Event()

    def work(thing: int) -> None:
        begun.append(thing)
        if thing == 0:
            assert other.wait(20)
            raise ValueError("no")
        other.set()
        assert cancelled.wait(20)
        is_clean.set()
        raise KeyError("a consequence")

    with pytest.raises(ValueError, match="no"):
        map_concurrently(range(9), work, most=2, cancel=cancelled.set)
    assert is_clean.is_set()
    assert sorted(begun) == [0, 1]


def test_the_silent_are_not_waited_for() -> None:
    """Where nothing can be cancelled or cleaned up, a failure is told at once."""
    silent, ended = threading.Event(), threading.Event()

    def work(thing: int) -> None:
        if thing == 0:
            assert silent.wait(20)
            raise ValueError("no")
        silent.set()
        ended.wait(20)

    with pytest.raises(ValueError, match="no"):
        map_concurrently(range(2), work, most=2)
    assert not ended.is_set()
    ended.set()
