"""Requests that wait for upstreams."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from server.upstream.mirroring import Mirroring

from wheelfit.server.messages import Request, Response
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.upstream.mirrored import MAX_THREADS
from wheelfit.server.upstream.opening import open_mirrors
from wheelfit.server.upstream.settings import MirrorSettings
from wheelfit.testing.index import RecordingIndex
from wheelfit_runtime.errors import Unreachable

Opener = Callable[..., Mirroring]
HTML = "text/html"


class Silent:
    """An upstream that does not respond until it is allowed to."""

    def __init__(self) -> None:
        self.speak = threading.Event()
        self.asked = threading.Semaphore(0)

    def __call__(self, request: Request) -> Response:
        """Respond with 404 in the end."""
        self.asked.release()
        self.speak.wait(20)
        return Response.text(404, request.path)


@pytest.fixture
def silent() -> Iterator[Silent]:
    """Run a silent upstream."""
    upstream = Silent()
    yield upstream
    upstream.speak.set()


@contextmanager
def waiting(
    ask: Callable[[str], object], silent: Silent, count: int = MAX_THREADS
) -> Iterator[list[Future[object]]]:
    """Wait for a silent upstream in threads; it speaks at the end.

    :param ask: sends a request for a project.
    :param count: requests that reach the upstream.
    """
    with ThreadPoolExecutor(MAX_THREADS) as pool:
        requests = [pool.submit(ask, f"some{number}") for number in range(MAX_THREADS)]
        for _ in range(count):
            assert silent.asked.acquire(timeout=20)
        yield requests
        silent.speak.set()


def test_other_mirrors(upstream: RecordingIndex, silent: Silent, tmp_path: Path) -> None:
    """Requests to a silent upstream fail in the end, and another mirror still responds."""
    with RecordingIndex(silent) as index:
        mirrors = open_mirrors(
            [
                MirrorSettings(index.url, name="silent", timeout=15.0),
                MirrorSettings(upstream.url, name="well"),
            ],
            FolderBlobs(tmp_path / "blobs"),
            None,
            environ={},
        )
        one, other = mirrors.indexes
        # Each mirror has a part of the threads.
        with waiting(one.project, silent, MAX_THREADS // 2) as asked:  # type: ignore[arg-type]
            page = other.project(canonicalize_name("small"))
            assert page is not None
            assert len(page.files) == 2
        for request in asked:
            assert isinstance(request.exception(), Unreachable | None)
        mirrors.close()


def test_project_list(mirror: Opener, silent: Silent) -> None:
    """The project list waits no longer than pages do, and the old list is served."""
    listed = Response.of(200, b'<a href="some/">some</a>', {"content-type": "text/html"})
    is_well = threading.Event()
    is_well.set()

    def answer(request: Request) -> Response:
        return listed if is_well.is_set() and request.path == "/simple/" else silent(request)

    with RecordingIndex(answer) as index:
        one = mirror(index.url, timeout=15.0, list_all=True, max_age=0.0)
        assert b"some" in b"".join(one.ask("/simple/").body)
        is_well.clear()
        with waiting(lambda name: one.ask(f"/simple/{name}/"), silent):
            assert b"some" in b"".join(one.ask("/simple/").body)


def test_stored_pages(mirror: Opener, silent: Silent) -> None:
    """Refused requests get pages that were stored before the server began."""
    page = Response.of(200, b'<a href="kept-1.tar.gz">kept-1.tar.gz</a>', {"content-type": HTML})

    def answer(request: Request) -> Response:
        return page if request.path == "/simple/kept/" else silent(request)

    with RecordingIndex(answer) as index:
        assert mirror(index.url).page("kept")
        one = mirror(index.url, timeout=15.0)
        with waiting(lambda name: one.ask(f"/simple/{name}/"), silent):
            assert one.page("kept")


def test_few_threads(mirror: Opener, silent: Silent) -> None:
    """Few requests wait for a silent upstream; the others fail at once."""
    with RecordingIndex(silent) as index:
        one = mirror(index.url, timeout=15.0)
        with waiting(lambda name: one.ask(f"/simple/{name}/"), silent):
            answer = one.ask("/simple/another/")
            assert answer.status == 502
            assert b"too many requests wait" in b"".join(answer.body)
        assert one.ask("/simple/another/").status == 404
