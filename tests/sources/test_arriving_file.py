"""A file that is read while it arrives."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, BinaryIO

import pytest

from wheelfit.sources.arriving_file import ArrivingFile
from wheelfit_runtime.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = bytes(range(100))


@pytest.fixture
def arriving(target: BinaryIO) -> ArrivingFile:
    """Give a file of a hundred bytes, of which nothing has come."""
    return ArrivingFile(target, len(BODY))


def in_background(work: Callable[[], object]) -> Callable[[], list[object]]:
    """Do something in a thread; return what gives the result, or the error."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001 - handed over
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> list[object]:
        thread.join(20)
        return results

    return result


@pytest.mark.parametrize(
    "order", [[(0, 40), (40, 70), (70, 100)], [(70, 100), (0, 40), (40, 70)], [(40, 100), (0, 40)]]
)
def test_any_order(arriving: ArrivingFile, order: list[tuple[int, int]]) -> None:
    """In whatever order the pieces come, in the end all bytes are in their places."""
    for start, stop in order:
        arriving.write_at(start, BODY[start:stop])
    assert arriving.read_at(0, 100) == BODY
    assert arriving.read_at(30, 50) == BODY[30:80]
    assert arriving.arrived_size == 100


def test_end_of_the_file(arriving: ArrivingFile) -> None:
    """Behind the end there is nothing, and nobody waits for it."""
    arriving.write_at(90, BODY[90:])
    assert arriving.read_at(95, 50) == BODY[95:]
    assert arriving.read_at(100, 5) == b""


def test_waiting(arriving: ArrivingFile) -> None:
    """Who reads what is not there waits for exactly that; gaps elsewhere do not matter."""
    arriving.write_at(60, BODY[60:80])
    result = in_background(lambda: arriving.read_at(50, 20))
    arriving.write_at(0, BODY[:20])
    arriving.write_at(40, BODY[40:60])
    assert result() == [BODY[50:70]]


def test_first_gap(arriving: ArrivingFile) -> None:
    """Whoever follows from the start is told what is there in one piece."""
    arriving.write_at(50, BODY[50:])
    assert arriving.arrived_size == 0
    arriving.write_at(0, BODY[:30])
    assert arriving.arrived_size == 30
    arriving.write_at(30, BODY[30:50])
    assert arriving.arrived_size == 100


def test_failure(arriving: ArrivingFile) -> None:
    """When the transfer ends early, everybody who waits or comes later learns why, once."""
    result = in_background(lambda: arriving.read_at(50, 20))
    error = Unreachable("gone")
    arriving.fail(error)
    arriving.fail(ValueError("a consequence"))
    assert result() == [error]
    with pytest.raises(Unreachable, match="gone"):
        arriving.read_at(0, 1)
    with pytest.raises(Unreachable, match="gone"):
        arriving.write_at(0, b"more")
    assert arriving.wait_for_writers() is error


def test_nobody_writes_after_settling(target: BinaryIO) -> None:
    """The file may be closed after an early end: nobody writes to its number any more."""
    arriving = ArrivingFile(target, 1 << 30)
    going_on = threading.Event()

    def write() -> None:
        position = 0
        while True:
            arriving.write_at(position, BODY)
            position += len(BODY)
            going_on.set()

    result = in_background(write)
    assert going_on.wait(20)
    arriving.fail(ValueError("enough"))
    arriving.wait_for_writers()
    size = target.seek(0, 2)
    assert isinstance(result()[0], ValueError)
    assert target.seek(0, 2) == size


def test_arrived(target: BinaryIO) -> None:
    """A file that is all there is read in the same way."""
    target.write(BODY)
    source = ArrivingFile.complete(target)
    assert (source.size, source.read_at(5, 1000)) == (100, BODY[5:])
