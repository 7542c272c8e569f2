"""Claims about who waits for upstreams, and who need not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from server.upstream.mirroring import Mirroring

from wheelfit.errors import Unreachable
from wheelfit.server.messages import Answer, Request
from wheelfit.server.upstream.crowd import Crowd
from wheelfit.testing.index import RecordingIndex

Opener = Callable[..., Mirroring]


class Silent:
    """Be an upstream that says nothing before it is allowed to."""

    def __init__(self) -> None:
        self.speak = threading.Event()
        self.asked = threading.Semaphore(0)

    def __call__(self, request: Request) -> Answer:
        """Answer in the end that there is nothing."""
        self.asked.release()
        self.speak.wait(20)
        return Answer.text(404, request.path)


@pytest.fixture
def silent() -> Iterator[Silent]:
    """Give one."""
    upstream = Silent()
    yield upstream
    upstream.speak.set()


def test_there_is_room_for_so_many() -> None:
    """Whoever leaves makes room; as long as all go on nobody is sent away."""
    crowd = Crowd(1, prompt=60)
    entered = threading.Event()

    def enter() -> None:
        with crowd.waiting():
            entered.set()

    with crowd.waiting():
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.wait(0.05)
    assert entered.wait(20)
    other.join()


def test_nobody_queues_behind_those_who_wait_for_long() -> None:
    """One more would only hold a thread."""
    crowd = Crowd(2, prompt=0)
    with crowd.waiting(), crowd.waiting(), pytest.raises(Unreachable), crowd.waiting():
        pass
    with crowd.waiting():
        pass


def test_a_silent_upstream_holds_few_threads(mirror: Opener, silent: Silent) -> None:
    """However many ask for its pages, the others are told at once, and so is who was told."""
    with RecordingIndex(silent) as index:
        one = mirror(index.url, timeout=15.0)
        waiting = [
            threading.Thread(target=one.ask, args=(f"/simple/some{number}/",))
            for number in range(12)
        ]
        for thread in waiting:
            thread.start()
        for _ in waiting:
            assert silent.asked.acquire(timeout=20)
        answer = one.ask("/simple/another/")
        assert answer.status == 502
        assert b"too many wait" in b"".join(answer.body)
        silent.speak.set()
        for thread in waiting:
            thread.join()
        assert one.ask("/simple/another/").status == 404
