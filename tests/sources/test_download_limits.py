"""A polite number of connections to each server."""

from __future__ import annotations

import threading

from wheelfit.sources.download_limits import ConnectionLimits
from wheelfit.sources.urls import origin

SERVER = origin("https://files.example/")


def test_not_more_than_allowed() -> None:
    """Each server gets its number and not one more."""
    lines = ConnectionLimits(2)
    first = lines.take(SERVER)
    second = lines.take_another(SERVER)
    assert second is not None
    assert lines.take_another(SERVER) is None
    assert lines.take_another(origin("https://other.example/")) is not None
    first.release()
    first.release()  # counts once
    assert lines.take_another(SERVER) is not None
    assert lines.take_another(SERVER) is None


def test_a_file_comes_before_more_connections_for_another() -> None:
    """While a file waits for its first connection, no other file gets one more."""
    lines = ConnectionLimits(1)
    line = lines.take(SERVER)
    taken = threading.Event()

    def wait() -> None:
        with lines.take(SERVER):
            taken.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    while not lines.has_waiting_file(SERVER):
        assert thread.is_alive()
    line.release()
    assert taken.wait(20)
    thread.join(20)
    assert not lines.has_waiting_file(SERVER)
    assert lines.take_another(SERVER) is not None
