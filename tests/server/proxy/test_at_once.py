"""Several installers at once, and what stays in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from server.proxy.behind import PIP, Behind, body
from server.proxy.test_pages import CUDA, LINUX_TAG, release

from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.testing.index import RecordingIndex

MANY = 16


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a release whose wheels are rewritten."""
    folder = tmp_path / "index"
    folder.mkdir()
    release(folder, "some", {"cu129": [LINUX_TAG]}, requires=('x; variant_label == "cu129"',))
    with RecordingIndex(folder) as index:
        yield index


def together(work: Callable[[int], bytes]) -> set[bytes]:
    """Do something in many threads at the same time."""
    start = threading.Barrier(MANY)

    def run(number: int) -> bytes:
        start.wait(30)
        return work(number)

    with ThreadPoolExecutor(MANY) as pool:
        return set(pool.map(run, range(MANY)))


def test_a_cold_page_is_made_once(index: RecordingIndex) -> None:
    """Whoever asks while a page is being made waits for it; the index is asked once."""
    behind = Behind(index.url, supported={"nvidia": CUDA})
    index.faults.delay["some-1.0-variants.json"] = 0.1
    pages = together(lambda _number: body(behind.ask("/simple/some/", PIP)))
    assert len(pages) == 1
    assert len(index.requests_for("some-1.0-variants.json")) == 1
    behind.close()


def test_one_wheel_for_many(index: RecordingIndex, tmp_path: Path) -> None:
    """All get equal bytes, and its end is read once."""
    behind = Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache")
    (file,) = behind.page("some", PIP).values()
    path = behind.path_of(file)
    assert len(together(lambda _number: body(behind.ask(path)))) == 1
    ends = [
        request
        for request in index.requests
        if request.headers.get("range", "").startswith("bytes=-")
    ]
    assert len(ends) == 1
    behind.close()


class TestMemory:
    """What is kept."""

    def test_what_was_used_last_stays(self) -> None:
        """Beyond its bytes the oldest goes, and what alone is too large is not kept."""
        memory = MemoryCache[bytes](10, len)
        for key, size in (("a", 4), ("b", 4)):
            memory.put(key, bytes(size))
        assert memory.peek("a") is not None
        memory.put("c", bytes(4))
        assert (memory.peek("a"), memory.peek("b")) == (bytes(4), None)
        memory.put("d", bytes(11))
        assert memory.peek("d") is None
        assert memory.size == 8

    def test_a_failure_is_nobody_elses(self) -> None:
        """What could not be made is made anew by whoever asks next."""
        memory = MemoryCache[bytes](10, len)
        with pytest.raises(ZeroDivisionError):
            memory.get("a", lambda: bytes(1 // 0))
        assert memory.get("a", lambda: b"x") == b"x"
