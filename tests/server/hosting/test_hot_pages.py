"""Pages at hand: when they are, and that they are never older than promised."""

from __future__ import annotations

from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.server.hosting.hot_pages import HotPages
from wheelfit.server.messages import Request
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.blobs import put
from wheelfit.server.store.opening import Store, open_store
from wheelfit.server.store.records import NewFile
from wheelfit.server.store.stored_index import StoredIndex


def add(store: Store, name: str, version: str) -> None:
    """Put a file into a store."""
    blob = put(store.blobs, [f"{name}{version}".encode()])
    filename = f"{name}-{version}-py3-none-any.whl"
    project = canonicalize_name(name)
    new = NewFile(filename, project, Version(version), blob.sha256, blob.size, "2026")
    store.records.add(new, keep=lambda: None)


def test_pages_are_at_hand_until_something_may_have_changed(tmp_path: Path) -> None:
    """A page comes without a thread while it is surely good, and never after a change."""
    now = [100.0]
    with open_store(tmp_path) as store:
        index = StoredIndex(store)
        pages = HotPages(
            SimpleIndex(index), index, store.records.serial, trust=1.0, clock=lambda: now[0]
        )
        one, other = Request("GET", "/simple/one/"), Request("GET", "/simple/other/")
        add(store, "one", "1")
        add(store, "other", "1")
        assert pages.at_hand(one) is None
        assert pages(one).status == pages(other).status == 200
        first = pages.at_hand(one)
        assert first is not None
        assert pages.at_hand(Request("POST", "/simple/one/")) is None
        assert pages.at_hand(Request("GET", "/files/one")) is None

        now[0] += 2  # too long ago
        assert pages.at_hand(one) is None
        assert pages(one).headers["etag"] == first.headers["etag"]
        assert pages.at_hand(one) is not None

        add(store, "one", "2")  # by somebody else: seen when it is looked for again
        now[0] += 2
        assert pages(one).headers["etag"] != first.headers["etag"]
        assert pages.at_hand(other) is None
        assert pages(other).status == 200
        assert pages.at_hand(other) is not None

        add(store, "other", "2")  # by this process: seen at once
        now[0] += 0.1
        pages.changed()
        assert pages.at_hand(one) is None
        now[0] += 0.1
        assert b"other-2-py3" in b"".join(pages(other).body)


def test_pages_take_no_more_room_than_they_may(tmp_path: Path) -> None:
    """The oldest pages go when there are too many."""
    with open_store(tmp_path) as store:
        index = StoredIndex(store)
        pages = HotPages(SimpleIndex(index), index, store.records.serial, room=1500, trust=1e9)
        for number in range(5):
            add(store, f"p{number}", "1")
        requests = [Request("GET", f"/simple/p{number}/") for number in range(5)]
        for request in requests:
            pages(request)
        kept = [request.path for request in requests if pages.at_hand(request) is not None]
        assert 0 < len(kept) < 5
        assert kept[-1] == "/simple/p4/"
