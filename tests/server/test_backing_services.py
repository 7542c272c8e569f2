"""Limits for waiting threads, and circuit breaking, of databases and storages."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wheelfit.errors import StorageUnavailable
from wheelfit.server.backing_services import Dependency


def time_out() -> None:
    """Raise the error of a service that does not respond."""
    raise StorageUnavailable("nothing", cause="unresponsive")


def use(dependency: Dependency, work: Callable[[], None] = lambda: None) -> None:
    """Use a dependency."""
    with dependency.use():
        work()


def fail_repeatedly(
    dependency: Dependency, times: int, work: Callable[[], None] = time_out
) -> None:
    """Use a dependency several times without success."""
    for _ in range(times):
        with pytest.raises(StorageUnavailable):
            use(dependency, work)


def test_max_threads() -> None:
    """A thread that ends makes room for a waiting one."""
    dependency = Dependency("database", max_threads=1, usual_seconds=60)
    entered = threading.Event()
    with dependency.use():
        other = threading.Thread(target=use, args=(dependency, entered.set))
        other.start()
        assert not entered.wait(0.05)
    assert entered.wait(20)
    other.join()


def test_no_queue_behind_slow_threads() -> None:
    """A thread is refused while all others are slow."""
    dependency = Dependency("database", max_threads=1, usual_seconds=0)
    with ThreadPoolExecutor(1) as pool:
        with dependency.use(), pytest.raises(StorageUnavailable, match="too many"):
            pool.submit(use, dependency).result()
        pool.submit(use, dependency).result()
        with dependency.use(is_long=True):  # takes no room
            pool.submit(use, dependency).result()


def test_nested_use() -> None:
    """Nested use by the same thread takes one place."""
    dependency = Dependency("database", max_threads=1, usual_seconds=0)
    with ThreadPoolExecutor(1) as pool, dependency.use():
        use(dependency)
        with pytest.raises(StorageUnavailable):  # nor has the inner one left for both
            pool.submit(use, dependency).result()


def test_open_circuit() -> None:
    """After repeated failures only one thread tries in each pause."""
    changes: list[str] = []
    dependency = Dependency("storage", failures=3, pause=0.2)
    dependency.on_change = lambda one: changes.append(one.fault)
    fail_repeatedly(dependency, 2)
    use(dependency)
    fail_repeatedly(dependency, 2)
    assert not dependency.is_unresponsive
    fail_repeatedly(dependency, 1)
    assert (dependency.is_unresponsive, dependency.fault) == (True, "does not answer")
    asked: list[str] = []
    with pytest.raises(StorageUnavailable, match="the storage does not answer"):
        use(dependency, lambda: asked.append("in vain"))
    assert not asked
    while dependency.is_unresponsive:  # after the pause somebody may try
        try:
            use(dependency)
        except StorageUnavailable:
            threading.Event().wait(0.02)
    assert changes == ["does not answer", ""]


def test_other_errors() -> None:
    """Errors other than silence do not open the circuit."""
    dependency = Dependency("storage", failures=1)

    def full() -> None:
        raise StorageUnavailable("no space left", cause="full")

    def slip() -> None:
        raise KeyError

    fail_repeatedly(dependency, 3, full)
    with pytest.raises(KeyError):
        use(dependency, slip)
    assert not dependency.is_unresponsive


def test_nested_dependencies() -> None:
    """A silent storage inside a transaction does not count against the database."""
    database, storage = Dependency("database", failures=1), Dependency("storage", failures=1)
    fail_repeatedly(database, 1, lambda: use(storage, time_out))
    assert (database.is_unresponsive, storage.is_unresponsive) == (False, True)
    fail_repeatedly(database, 1, lambda: use(storage))  # which is refused
    assert not database.is_unresponsive


def test_probe() -> None:
    """A probe may use a silent dependency, and reports its trouble."""
    dependency = Dependency("storage", failures=1)
    fail_repeatedly(dependency, 1)

    def full() -> None:
        with dependency.use():
            raise StorageUnavailable("no space left", cause="full")

    dependency.probe(full)
    assert (dependency.is_unresponsive, dependency.fault) == (False, "is full")
    dependency.probe(time_out)
    assert dependency.is_unresponsive
    dependency.probe(lambda: use(dependency))
    assert (dependency.is_unresponsive, dependency.fault) == (False, "")
    released, over = threading.Event(), threading.Event()

    def hang() -> None:
        released.wait(20)

    watching = threading.Thread(target=dependency.watch, args=(hang, over))
    watching.start()
    while not dependency.is_unresponsive:
        over.wait(0.02)
    with pytest.raises(StorageUnavailable):
        use(dependency)
    over.set()
    released.set()
    watching.join()
    assert not dependency.is_unresponsive


def test_cancel_overdue() -> None:
    """An overdue use is cancelled once."""
    dependency = Dependency("database")
    given_up = threading.Event()
    with dependency.use(timeout=60) as turn:
        turn.cancel = given_up.set
        dependency.cancel_overdue()
        assert not given_up.is_set()
        turn.until = 0
        dependency.cancel_overdue()
        assert given_up.is_set()
        assert turn.cancel is None


def test_cancel_of_an_ended_use(tmp_path: Path) -> None:
    """Cancelling an ended use does not affect others."""
    dependency = Dependency("database")
    closed = sqlite3.connect(tmp_path / "a")
    closed.close()
    given_up, is_in, over = threading.Event(), threading.Event(), threading.Event()

    def wait() -> None:
        with dependency.use(timeout=0) as turn:
            turn.cancel = given_up.set
            is_in.set()
            over.wait(20)

    with ThreadPoolExecutor(1) as pool, dependency.use(timeout=0) as turn:
        turn.cancel = closed.interrupt
        waiting = pool.submit(wait)
        is_in.wait(20)
        dependency.cancel_overdue()
        over.set()
        waiting.result()
    assert given_up.is_set()
