"""Pages in memory: when they are used, and how old they may be."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version
from server.uploading import store_bytes

from wheelfit.errors import StorageUnavailable
from wheelfit.server.hosting.page_cache import PageCache
from wheelfit.server.messages import Request
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.opening import Store, open_store
from wheelfit.server.store.records import NewFile
from wheelfit.server.store.stored_index import StoredIndex


def add(store: Store, name: str, version: str) -> None:
    """Put a file into a store."""
    blob = store_bytes(store.blobs, [f"{name}{version}".encode()])
    filename = f"{name}-{version}-py3-none-any.whl"
    project = canonicalize_name(name)
    new = NewFile(filename, project, Version(version), blob.sha256, blob.size, "2026")
    store.records.add(new, save=lambda: None)


def cache_of(
    store: Store, generation: Callable[[], Hashable] | None = None, **options: Any
) -> PageCache:
    """Return a cache of the pages of a store."""
    index = StoredIndex(store)
    return PageCache(SimpleIndex(index), index, generation or store.records.serial, **options)


def test_fresh_pages(tmp_path: Path) -> None:
    """A page is served without a thread while it is fresh, and not after a change."""
    now = [100.0]
    with open_store(tmp_path) as store:
        pages = cache_of(store, max_age=1.0, clock=lambda: now[0])
        one, other = Request("GET", "/simple/one/"), Request("GET", "/simple/other/")
        add(store, "one", "1")
        add(store, "other", "1")
        assert pages.cached_response(one) is None
        assert pages(one).status == pages(other).status == 200
        first = pages.cached_response(one)
        assert first is not None
        assert pages.cached_response(Request("POST", "/simple/one/")) is None
        assert pages.cached_response(Request("GET", "/files/one")) is None

        now[0] += 2  # too long ago
        assert pages.cached_response(one) is None
        assert pages(one).headers["etag"] == first.headers["etag"]
        assert pages.cached_response(one) is not None

        add(store, "one", "2")  # by somebody else: seen when it is looked for again
        now[0] += 2
        assert pages(one).headers["etag"] != first.headers["etag"]
        assert pages.cached_response(other) is None
        assert pages(other).status == 200
        assert pages.cached_response(other) is not None
        pages.record_change()  # also if a coarse clock shows the same moment
        assert pages.cached_response(other) is None

        add(store, "other", "2")  # by this process: seen at once
        now[0] += 0.1
        pages.record_change()
        assert pages.cached_response(one) is None
        now[0] += 0.1
        assert b"other-2-py3" in b"".join(pages(other).body)


def test_early_refresh(tmp_path: Path) -> None:
    """Before pages expire a single request goes to a thread to check them."""
    now = [100.0]
    with open_store(tmp_path) as store:
        pages = cache_of(store, max_age=1.0, clock=lambda: now[0])
        add(store, "one", "1")
        request = Request("GET", "/simple/one/")
        first = pages(request)
        add(store, "one", "2")  # by somebody else
        now[0] += 0.6
        assert pages.cached_response(request) is None
        for _ in range(3):
            answer = pages.cached_response(request)
            assert answer is not None
            assert answer.headers["etag"] == first.headers["etag"]
        assert pages(request).headers["etag"] != first.headers["etag"]
        now[0] += 0.5
        assert pages.cached_response(request) is not None

        now[0] += 0.1
        assert pages.cached_response(request) is None  # which is lost: nobody looks
        now[0] += 0.5
        assert [pages.cached_response(request) for _ in range(2)] == [None, None]


def test_size_limit(tmp_path: Path) -> None:
    """The oldest pages are dropped when there are too many."""
    with open_store(tmp_path) as store:
        pages = cache_of(store, max_size=1500, max_age=1e9)
        for number in range(5):
            add(store, f"p{number}", "1")
        requests = [Request("GET", f"/simple/p{number}/") for number in range(5)]
        for request in requests:
            pages(request)
        kept = [request.path for request in requests if pages.cached_response(request) is not None]
        assert 0 < len(kept) < 5
        assert kept[-1] == "/simple/p4/"


def test_stale_pages(tmp_path: Path) -> None:
    """Without a generation unchanged pages are served as they were, for a limited time."""
    now = [100.0]
    is_down = [False]
    with open_store(tmp_path) as store:

        def generation() -> int:
            if is_down[0]:
                raise StorageUnavailable("nothing", cause="unresponsive")
            return store.records.serial()

        pages = cache_of(store, generation, max_age=1.0, max_stale_age=60.0, clock=lambda: now[0])
        one, other, every = (Request("GET", f"/simple/{path}") for path in ("one/", "other/", ""))
        for name in ("one", "other"):
            add(store, name, "1")
        for request in (one, other, every):
            assert pages(request).status == 200
        is_down[0] = True
        now[0] += 2
        assert pages.cached_response(one) is None  # nobody has asked yet
        assert pages(one).status == 200
        assert pages.cached_response(one) is not None  # nor does anybody ask again at once
        with pytest.raises(StorageUnavailable):
            pages(Request("GET", "/simple/unknown/"))

        pages.record_change("other")
        for request in (other, every):
            assert pages.cached_response(request) is None
            with pytest.raises(StorageUnavailable):
                pages(request)
        assert pages(one).status == 200
        now[0] += 60
        with pytest.raises(StorageUnavailable):
            pages(one)

        is_down[0] = False
        for request in (one, other, every):
            assert pages(request).status == 200
        is_down[0] = True
        now[0] += 2
        assert pages(other).status == pages(every).status == 200
        now[0] += 1
        pages.record_change()
        for request in (one, other, every):
            with pytest.raises(StorageUnavailable):
                pages(request)


def test_slow_database(tmp_path: Path) -> None:
    """While a database keeps one request waiting, others get pages from memory."""
    asking, answer = threading.Event(), threading.Event()
    is_slow = [False]
    with open_store(tmp_path) as store:

        def generation() -> int:
            if is_slow[0]:
                asking.set()
                answer.wait(20)
            return store.records.serial()

        pages = cache_of(store, generation, max_age=0)
        add(store, "one", "1")
        request = Request("GET", "/simple/one/")
        assert pages(request).status == 200
        is_slow[0] = True
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(pages, request)
            assert asking.wait(20)
            assert pages(request).status == 200
            while pages.cached_response(request) is None:
                time.sleep(0.01)
            assert not first.done()
            answer.set()
            assert first.result().status == 200
