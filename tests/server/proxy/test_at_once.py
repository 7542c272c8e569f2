"""Concurrent clients, and the memory cache."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from server.proxy.behind import CUDA, LINUX_TAG, PIP, Behind, body, release

from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.testing.index import RecordingIndex

MANY = 16


@pytest.fixture
def index(folder: Path, index: RecordingIndex) -> RecordingIndex:
    """Serve a release with wheels to rewrite."""
    release(folder, "some", {"cu129": [LINUX_TAG]}, requires=('x; variant_label == "cu129"',))
    return index


def run_concurrently(work: Callable[[int], bytes]) -> set[bytes]:
    """Run a function in many threads at the same time."""
    start = threading.Barrier(MANY)

    def run(number: int) -> bytes:
        start.wait(30)
        return work(number)

    with ThreadPoolExecutor(MANY) as pool:
        return set(pool.map(run, range(MANY)))


def test_page_is_made_once(index: RecordingIndex) -> None:
    """Concurrent requests for a page wait for one computation."""
    with Behind(index.url, supported={"nvidia": CUDA}) as behind:
        index.faults.delay["some-1.0-variants.json"] = 0.1
        pages = run_concurrently(lambda _number: body(behind.ask("/simple/some/", PIP)))
        assert len(pages) == 1
        assert len(index.requests_for("some-1.0-variants.json")) == 1


def test_wheel_is_read_once(index: RecordingIndex, tmp_path: Path) -> None:
    """All clients get equal bytes, and the end of the wheel is read once."""
    with Behind(index.url, supported={"nvidia": CUDA}, cache=tmp_path / "cache") as behind:
        (file,) = behind.page("some", PIP).values()
        path = behind.path_of(file)
        assert len(run_concurrently(lambda _number: body(behind.ask(path)))) == 1
        ends = [
            request
            for request in index.requests
            if request.headers.get("range", "").startswith("bytes=-")
        ]
        assert len(ends) == 1


class TestMemory:
    """The memory cache."""

    def test_eviction(self) -> None:
        """The least recently used entries are evicted; too large ones are not stored."""
        memory = MemoryCache[bytes](10, len)
        for key, size in (("a", 4), ("b", 4)):
            memory.put(key, bytes(size))
        assert memory.peek("a") is not None
        memory.put("c", bytes(4))
        assert (memory.peek("a"), memory.peek("b")) == (bytes(4), None)
        memory.put("d", bytes(11))
        assert memory.peek("d") is None
        assert memory.size == 8

    def test_failures_are_not_cached(self) -> None:
        """A failed computation is repeated by the next caller."""
        memory = MemoryCache[bytes](10, len)
        with pytest.raises(ZeroDivisionError):
            memory.get("a", lambda: bytes(1 // 0))
        assert memory.get("a", lambda: b"x") == b"x"
