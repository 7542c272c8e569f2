"""Waiting for the disk together."""

from __future__ import annotations

import errno
import os
import sys
import threading

import pytest
from programs import until

from wheelfit.wheels.shared_sync import SharedSync

PATIENCE = 20.0


class Disk:
    """A disk that is slow the first time.

    :param fails: whether the second time something cannot be written.
    """

    def __init__(self, *, fails: bool = False) -> None:
        self.count = 0
        self.began, self.go_on = threading.Event(), threading.Event()
        self._fails = fails

    def sync(self) -> bool:
        """Wait, the first time until somebody says so."""
        self.count += 1
        if self.count == 1:
            self.began.set()
            assert self.go_on.wait(PATIENCE)
        elif self._fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO), "some file")
        return True


def ask(shared: SharedSync, disk: Disk, told: list[object]) -> threading.Thread:
    """Wait for a disk in a thread."""

    def run() -> None:
        try:
            told.append(shared.wait(disk.sync))
        except OSError as error:
            told.append(error.errno)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def is_waiting(thread: threading.Thread) -> bool:
    """Return whether a thread waits for another one."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code is threading.Condition.wait.__code__


def waiting(shared: SharedSync, disk: Disk, count: int) -> list[object]:
    """Let one thread wait for the disk, and others meanwhile; return what they are told."""
    told: list[object] = []
    threads = [ask(shared, disk, told)]
    assert disk.began.wait(PATIENCE)
    late: list[object] = []
    others = [ask(shared, disk, late) for _ in range(count)]
    until(lambda: all(map(is_waiting, others)))
    assert not late
    disk.go_on.set()
    for thread in threads + others:
        thread.join(PATIENCE)
    assert told == [True]
    return late


def test_one_wait_for_many() -> None:
    """Whoever asks while it runs waits for the next one, all of them for the same."""
    disk = Disk()
    assert waiting(SharedSync(), disk, 5) == [True] * 5
    assert disk.count == 2


def test_each_after_the_other() -> None:
    """Whoever asks afterwards gets a wait of its own."""
    shared, disk = SharedSync(), Disk()
    disk.go_on.set()
    assert [shared.wait(disk.sync) for _ in range(3)] == [True] * 3
    assert disk.count == 3


def test_all_are_told_of_a_failure() -> None:
    """What could not be written is told to everybody whose bytes it may be, and to nobody else."""
    shared, disk = SharedSync(), Disk(fails=True)
    assert waiting(shared, disk, 3) == [errno.EIO] * 3
    assert disk.count == 2
    assert shared.wait(lambda: True)


def test_where_it_cannot_be_done() -> None:
    """Everybody is told that there is no such thing here."""
    shared = SharedSync()
    assert not shared.wait(lambda: False)
    assert not shared.wait(lambda: False)


def test_an_interruption_passes() -> None:
    """Ctrl-C is for the one who is interrupted; the next one syncs itself."""
    shared = SharedSync()

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shared.wait(interrupted)
    assert shared.wait(lambda: True)
