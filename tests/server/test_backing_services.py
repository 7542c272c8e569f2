"""Claims about who may wait for a dependency, for how long, and when nobody does."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wheelfit.errors import StorageUnavailable
from wheelfit.server.backing_services import Dependency


def silence() -> None:
    """Give no answer."""
    raise StorageUnavailable("nothing", trouble="silent")


def ask(dependency: Dependency, work: Callable[[], None] = lambda: None) -> None:
    """Ask something."""
    with dependency.turn():
        work()


def fail(dependency: Dependency, times: int, work: Callable[[], None] = silence) -> None:
    """Ask again and again in vain."""
    for _ in range(times):
        with pytest.raises(StorageUnavailable):
            ask(dependency, work)


def test_there_is_room_for_so_many() -> None:
    """Whoever leaves makes room; as long as all go on nobody is sent away."""
    dependency = Dependency("database", max_threads=1, usual_seconds=60)
    entered = threading.Event()
    with dependency.turn():
        other = threading.Thread(target=ask, args=(dependency, entered.set))
        other.start()
        assert not entered.wait(0.05)
    assert entered.wait(20)
    other.join()


def test_nobody_queues_behind_those_who_wait_for_long() -> None:
    """One more would only hold a thread."""
    dependency = Dependency("database", max_threads=1, usual_seconds=0)
    with ThreadPoolExecutor(1) as pool:
        with dependency.turn(), pytest.raises(StorageUnavailable, match="too many"):
            pool.submit(ask, dependency).result()
        pool.submit(ask, dependency).result()
        with dependency.turn(is_long=True):  # takes no room
            pool.submit(ask, dependency).result()


def test_whoever_asks_does_so_once() -> None:
    """Who asks for one thing on the way to another waits for nobody, least of all for himself."""
    dependency = Dependency("database", max_threads=1, usual_seconds=0)
    with ThreadPoolExecutor(1) as pool, dependency.turn():
        ask(dependency)
        with pytest.raises(StorageUnavailable):  # nor has the inner one left for both
            pool.submit(ask, dependency).result()


def test_what_fails_again_and_again_is_left_alone() -> None:
    """After so many failures in a row nobody asks, but one in each pause."""
    changes: list[str] = []
    dependency = Dependency("storage", failures=3, pause=0.2)
    dependency.on_change = lambda one: changes.append(one.trouble)
    fail(dependency, 2)
    ask(dependency)
    fail(dependency, 2)
    assert not dependency.is_silent
    fail(dependency, 1)
    assert (dependency.is_silent, dependency.trouble) == (True, "does not answer")
    asked: list[str] = []
    with pytest.raises(StorageUnavailable, match="the storage does not answer"):
        ask(dependency, lambda: asked.append("in vain"))
    assert not asked
    while dependency.is_silent:  # after the pause somebody may try
        try:
            ask(dependency)
        except StorageUnavailable:
            threading.Event().wait(0.02)
    assert changes == ["does not answer", ""]


def test_what_says_no_has_answered() -> None:
    """A full disk, or a fault of whoever asks, keeps nobody from asking."""
    dependency = Dependency("storage", failures=1)

    def full() -> None:
        raise StorageUnavailable("no space left", trouble="full")

    def slip() -> None:
        raise KeyError

    fail(dependency, 3, full)
    with pytest.raises(KeyError):
        ask(dependency, slip)
    assert not dependency.is_silent


def test_of_two_the_one_that_failed_is_blamed() -> None:
    """A storage that is silent within a transaction says nothing of the database."""
    database, storage = Dependency("database", failures=1), Dependency("storage", failures=1)
    fail(database, 1, lambda: ask(storage, silence))
    assert (database.is_silent, storage.is_silent) == (False, True)
    fail(database, 1, lambda: ask(storage))  # which is refused
    assert not database.is_silent


def test_a_probe_says_what_is_wrong_and_when_it_is_over() -> None:
    """A probe asks what nobody else may ask; while one hangs, that is known."""
    dependency = Dependency("storage", failures=1)
    fail(dependency, 1)

    def full() -> None:
        with dependency.turn():
            raise StorageUnavailable("no space left", trouble="full")

    dependency.probe(full)
    assert (dependency.is_silent, dependency.trouble) == (False, "has no room")
    dependency.probe(silence)
    assert dependency.is_silent
    dependency.probe(lambda: ask(dependency))
    assert (dependency.is_silent, dependency.trouble) == (False, "")
    released, over = threading.Event(), threading.Event()

    def hang() -> None:
        released.wait(20)

    watching = threading.Thread(target=dependency.watch, args=(hang, over))
    watching.start()
    while not dependency.is_silent:
        over.wait(0.02)
    with pytest.raises(StorageUnavailable):
        ask(dependency)
    over.set()
    released.set()
    watching.join()
    assert not dependency.is_silent


def test_whoever_waits_too_long_is_broken_off() -> None:
    """What can be broken off is, once, from outside."""
    dependency = Dependency("database")
    given_up = threading.Event()
    with dependency.turn(timeout=60) as turn:
        turn.cancel = given_up.set
        dependency.cancel_overdue()
        assert not given_up.is_set()
        turn.until = 0
        dependency.cancel_overdue()
        assert given_up.is_set()
        assert turn.cancel is None


def test_what_is_closed_already_is_ended_in_vain(tmp_path: Path) -> None:
    """A call that ends by itself in the moment of its deadline leaves those of others theirs."""
    dependency = Dependency("database")
    closed = sqlite3.connect(tmp_path / "a")
    closed.close()
    given_up, is_in, over = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        with dependency.turn(timeout=0) as turn:
            turn.cancel = given_up.set
            is_in.set()
            over.wait(20)

    with ThreadPoolExecutor(1) as pool, dependency.turn(timeout=0) as turn:
        turn.cancel = closed.interrupt
        waiting = pool.submit(wait)
        is_in.wait(20)
        dependency.cancel_overdue()
        over.set()
        waiting.result()
    assert given_up.is_set()
