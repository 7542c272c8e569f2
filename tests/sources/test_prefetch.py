"""What is fetched ahead is what is asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name

from wheelfit.errors import Unreachable
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.prefetch import Prefetching
from wheelfit.sources.progress import NO_PROGRESS

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.progress import Progress

NAMES = [canonicalize_name(f"p{number}") for number in range(20)]
FILE = File("a-1-py3-none-any.whl", "https://h.example/a", {"sha256": "ab"})


class SlowRepository:
    """A repository that counts what it is asked, and answers when it may."""

    name = "slow"

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.may_answer = threading.Event()
        self.busy = threading.Semaphore(0)
        self.lock = threading.Lock()

    def work(self, what: str) -> None:
        """Count, and wait until answers are allowed."""
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1
        self.busy.release()
        assert self.may_answer.wait(10)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Answer, except for one name."""
        self.work(name)
        if name == "p7":
            raise Unreachable("p7 is down")
        return ProjectPage(name, (), self.name)

    def read(self, file: File) -> bytes:
        """Answer."""
        self.work(f"read {file.filename}")
        return b"small"

    def metadata(self, file: File) -> bytes:
        """Answer."""
        self.work(f"metadata {file.filename}")
        return b"metadata"

    def variant_document(self, file: File) -> bytes | None:
        """Answer."""
        self.work(f"document {file.filename}")
        return None

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Answer."""
        self.work("download")
        progress.done()
        return folder / file.filename


@pytest.fixture
def slow() -> SlowRepository:
    """Give a repository that waits."""
    return SlowRepository()


def test_ahead(slow: SlowRepository) -> None:
    """What was begun ahead runs at once in several threads, and is done once."""
    with Prefetching(slow, threads=4) as ahead:
        ahead.prefetch_projects(NAMES)
        for _ in range(4):
            assert slow.busy.acquire(timeout=10)
        slow.may_answer.set()
        pages = [ahead.project(name) for name in NAMES if name != "p7"]
        assert [page.name for page in pages if page is not None] == [
            name for name in NAMES if name != "p7"
        ]
        with pytest.raises(Unreachable, match="p7 is down"):
            ahead.project(NAMES[7])
        ahead.prefetch_projects(NAMES)
    assert set(slow.counts.values()) == {1}


def test_asked_while_it_waits(slow: SlowRepository) -> None:
    """If all threads are busy, the caller does it itself instead of waiting its turn."""
    with Prefetching(slow, threads=1) as ahead:
        ahead.prefetch_projects(NAMES[:3])
        assert slow.busy.acquire(timeout=10)
        caller = threading.Thread(target=ahead.project, args=(NAMES[2],))
        caller.start()
        assert slow.busy.acquire(timeout=10)
        slow.may_answer.set()
        caller.join()
        assert slow.counts["p2"] == 1


def test_many_ask_for_one(slow: SlowRepository) -> None:
    """Callers at the same time share one question."""
    with Prefetching(slow) as ahead:
        callers = [threading.Thread(target=ahead.metadata, args=(FILE,)) for _ in range(8)]
        for caller in callers:
            caller.start()
        slow.may_answer.set()
        for caller in callers:
            caller.join()
    assert slow.counts == {f"metadata {FILE.filename}": 1}


def test_everything_is_remembered(slow: SlowRepository, tmp_path: Path) -> None:
    """Results and errors stay the same; downloads are done each time."""
    slow.may_answer.set()
    with Prefetching(slow) as ahead:
        ahead.prefetch_metadata(FILE)
        ahead.prefetch_read(FILE)
        for _ in range(2):
            assert ahead.metadata(FILE) == b"metadata"
            assert ahead.read(FILE) == b"small"
            assert ahead.variant_document(FILE) is None
            assert ahead.download(FILE, tmp_path) == tmp_path / FILE.filename
            with pytest.raises(Unreachable):
                ahead.project(NAMES[7])
    assert slow.counts.pop("download") == 2
    assert set(slow.counts.values()) == {1}


def test_closing_stops_what_waits(slow: SlowRepository) -> None:
    """After the end nothing new begins ahead; what is asked for still works."""
    ahead = Prefetching(slow, threads=1)
    ahead.prefetch_projects(NAMES)
    assert slow.busy.acquire(timeout=10)
    slow.may_answer.set()
    ahead.close()
    done = len(slow.counts)
    assert done < len(NAMES)
    ahead.prefetch_projects(NAMES)
    assert len(slow.counts) == done
    assert ahead.project(NAMES[-1]) is not None


def test_errors_ahead_are_silent(slow: SlowRepository) -> None:
    """An error of something that nobody asks for afterwards harms nobody."""
    slow.may_answer.set()
    with Prefetching(slow) as ahead:
        ahead.prefetch_projects([NAMES[7]])
