"""What was asked once is not asked again."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, cast

import pytest
from packaging.utils import canonicalize_name

from wheelfit.sources.memoized import MemoizedRepository
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.testing.repositories import FakeRepository
from wheelfit_runtime.errors import Unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.progress import Progress
    from wheelfit.wheels.unpacked import UnpackedWheel

NAMES = [canonicalize_name(f"p{number}") for number in range(20)]
FILE = File("a-1-py3-none-any.whl", "https://h.example/a", {"sha256": "ab"})


class SlowRepository(FakeRepository):
    """A repository that counts what it is asked, and answers when it may."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.add_wheel(FILE.filename, metadata=b"metadata", data=b"small")
        self.counts: Counter[str] = Counter()
        self.may_answer = threading.Event()
        self.busy = threading.Semaphore(0)
        self.lock = threading.Lock()

    def _record(self, text: str) -> None:
        """Count, and wait until answers are allowed."""
        with self.lock:
            self.counts[text] += 1
        self.busy.release()
        assert self.may_answer.wait(10)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Answer, except for one name."""
        page = super().project(name)
        if name == "p7":
            raise Unreachable("p7 is down")
        return page

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Only download it."""
        return cast("UnpackedWheel", self.download(file, folder, progress))


@pytest.fixture
def slow() -> SlowRepository:
    """Give a repository that waits."""
    return SlowRepository()


def test_many_ask_for_one(slow: SlowRepository) -> None:
    """Callers at the same time share one question, and all get its answer."""
    sources = MemoizedRepository(slow)
    answers: list[bytes] = []
    callers = [
        threading.Thread(target=lambda: answers.append(sources.metadata(FILE))) for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    assert slow.busy.acquire(timeout=10)
    slow.may_answer.set()
    for caller in callers:
        caller.join()
    assert answers == [b"metadata"] * 8
    assert slow.counts == {f"metadata {FILE.filename}": 1}


def test_different_questions_run_at_once(slow: SlowRepository) -> None:
    """A slow answer keeps nobody from another question."""
    sources = MemoizedRepository(slow)
    callers = [threading.Thread(target=sources.project, args=(name,)) for name in NAMES[:4]]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert slow.busy.acquire(timeout=10)
    slow.may_answer.set()
    for caller in callers:
        caller.join()
    assert len(slow.counts) == 4


def test_everything_is_remembered(slow: SlowRepository, tmp_path: Path) -> None:
    """Results and errors stay the same; downloads are done each time."""
    slow.may_answer.set()
    with MemoizedRepository(slow) as sources:
        for _ in range(2):
            assert sources.metadata(FILE) == b"metadata"
            assert sources.read(FILE) == b"small"
            assert sources.variant_document(FILE) is None
            assert sources.download(FILE, tmp_path) == tmp_path / FILE.filename
            wheel: object = sources.unpacked(FILE, tmp_path)
            assert wheel == tmp_path / FILE.filename
            with pytest.raises(Unreachable):
                sources.project(NAMES[7])
    assert slow.counts.pop(f"download {FILE.filename}") == 4
    assert set(slow.counts.values()) == {1}


def test_closing(slow: SlowRepository) -> None:
    """Leaving it closes what is below, once."""
    closed: list[None] = []
    with MemoizedRepository(slow, lambda: closed.append(None)):
        assert not closed
    assert len(closed) == 1
