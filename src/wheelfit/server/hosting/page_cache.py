"""A cache of pages in memory, plain and compressed, with stamps to detect outdated ones."""

from __future__ import annotations

import gzip
import threading
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from wheelfit.errors import StorageUnavailable
from wheelfit.server.messages import Request, Response, accepts_gzip, content_response
from wheelfit.server.pages import choose_type
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.server.messages import Application
    from wheelfit.sources.repository import Index


_ROOM = 128 << 20
_TRUST = 0.1
_PROMPT = 0.25
"""Seconds in which the database normally returns the generation."""
_PATIENCE = 2.0
"""Seconds for which a request waits for it if there is no old page."""
_AGAIN = 0.5
"""Seconds after a failure until the generation is read again."""
_OLDEST = 3600.0
_EVERY_PROJECT = ""
_MOST_CHANGES = 10_000
_WORTH_IT = 600
"""Bytes from which a page is compressed; a packet has more than twice as many."""
_PAGE = pattern(r"/simple/(?:([a-z0-9]+(?:-[a-z0-9]+)*)/)?")


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of a page as it is sent: plain, or compressed."""

    body: bytes
    etag: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _WrittenPage:
    """A page in all its forms."""

    stamp: Hashable
    generation: Hashable
    """The last generation in which it was up to date."""
    seen: float
    """The time of that comparison."""
    plain: _Form
    compressed: _Form | None

    @property
    def size(self) -> int:
        packed = 0 if self.compressed is None else len(self.compressed.body)
        return len(self.plain.body) + packed


class PageCache:
    """Pages of the Simple API, answered from memory: an `Application` around another one.

    Every page is up to date as long as the generation is the one in which it was last compared;
    after that it is compared by its own stamp. The generation is read again after a moment, so
    changes of other processes show after it; those of this process show at once.

    While the database does not answer, a page is served as it was when it was last up to date,
    unless that is longer ago than `oldest`, or this process has changed the page since.

    :param generation: returns a value that stays equal as long as all pages do; in a thread.
    :param is_shared: returns whether a page of a project, or ``""`` for the list of projects, is
        the same for all readers. Other pages are neither cached nor answered from here. None: all
        pages are the same.
    :param room: bytes of memory for pages.
    :param trust: seconds for which a generation is valid; after half of them it is read again.
    :param oldest: seconds for which a page is served while the database does not answer.
    """

    def __init__(
        self,
        application: Application,
        index: Index,
        generation: Callable[[], Hashable],
        *,
        is_shared: Callable[[str], bool] | None = None,
        room: int = _ROOM,
        trust: float = _TRUST,
        oldest: float = _OLDEST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application = application
        self._index = index
        self._generation = generation
        self._is_shared = is_shared
        self._room = room
        self._trust = trust
        self._look_again = trust / 2
        self._sent_to_look = float("-inf")
        self._oldest = oldest
        self._clock = clock
        self._pages: dict[tuple[str, str], _WrittenPage] = {}
        self._size = 0
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._looking_since: float | None = None
        self._failed = float("-inf")
        self._seen: tuple[float, Hashable] = (float("-inf"), None)
        self._changed = float("-inf")
        self._changes: dict[str, float] = {}

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        place = _place(request)
        if place is None or not (self._is_shared is None or self._is_shared(place[0])):
            return self._application(request)
        try:
            page = self._up_to_date(request, place)
        except StorageUnavailable:
            page = self._old(place)
            if page is None:
                raise
        return self._application(request) if page is None else _page_response(request, page)

    def _up_to_date(self, request: Request, place: tuple[str, str]) -> _WrittenPage | None:
        """Return a page that is up to date; None if there is none that can be kept."""
        generation = self._look(has_old=self._old(place) is not None)
        page = self._pages.get(place)
        if page is not None and page.generation == generation:
            return page
        name = place[0]
        now = self._clock()
        # Read before the page is created: at worst it is newer than its stamp, and created again.
        stamp = self._index.stamp(cast("NormalizedName", name)) if name else generation
        if stamp is None:
            return None
        if page is not None and page.stamp == stamp:
            page = replace(page, generation=generation, seen=now)
        else:
            page = self._write(request, place, stamp, generation, now)
        if page is not None:
            self._keep(place, page)
        return page

    def _old(self, place: tuple[str, str]) -> _WrittenPage | None:
        """Return a page that was up to date at most `oldest` ago; None if there is none."""
        page = self._pages.get(place)
        if page is None:
            return None
        since, generation = self._seen
        seen = max(page.seen, since) if page.generation == generation else page.seen
        changes = self._changes
        every = changes.get(_EVERY_PROJECT, float("-inf"))
        # On the list of all projects every change may be seen.
        changed = max(every, changes.get(place[0], every)) if place[0] else self._changed
        is_older = seen <= changed or self._clock() - seen > self._oldest
        return None if is_older else page

    def cached_response(self, request: Request) -> Response | None:
        """Return the response if it is cached and up to date; None: call the application."""
        place = _place(request)
        page = None if place is None else self._pages.get(place)
        if place is None or page is None:
            return None
        if self._is_shared is not None and not self._is_shared(place[0]):
            return None
        since, generation = self._seen
        now = self._clock()
        age = now - since
        if page.generation != generation or age > self._trust or since <= self._changed:
            page = self._old(place) if self._is_unreachable(now) else None
        elif age > self._look_again and self._sent_to_look <= since:
            # One request refreshes it early, so that many do not wait for it later.
            self._sent_to_look = now
            return None
        return None if page is None else _page_response(request, page)

    def changed(self, project: str = _EVERY_PROJECT) -> None:
        """Record that this process has changed the page of a project, by default of any."""
        now = self._changed = self._clock()
        if project == _EVERY_PROJECT or len(self._changes) >= _MOST_CHANGES:
            self._changes = {_EVERY_PROJECT: now}
        else:
            self._changes[project] = now

    def _is_unreachable(self, now: float) -> bool:
        """Return whether the generation cannot be read at the moment."""
        looking = self._looking_since
        return now - self._failed < _AGAIN or (looking is not None and now - looking > _PROMPT)

    def _look(self, *, has_old: bool) -> Hashable:
        """Return the generation, which one thread reads while the others wait for it.

        :param has_old: whether there is an old page to serve, which is worth a short wait only.
        """
        if self._is_fresh():
            return self._seen[1]
        if not self._looking.acquire(timeout=_PROMPT if has_old else _PATIENCE):
            raise StorageUnavailable("the database does not answer", trouble="silent")
        try:
            if not self._is_fresh():
                now = self._looking_since = self._clock()
                self._seen = (now, self._generation())
            return self._seen[1]
        except StorageUnavailable:
            self._failed = self._clock()
            raise
        finally:
            self._looking_since = None
            self._looking.release()

    def _is_fresh(self) -> bool:
        """Return whether the generation is recent enough."""
        since = self._seen[0]
        return self._clock() - since <= self._look_again and since > self._changed

    def _write(
        self,
        request: Request,
        place: tuple[str, str],
        stamp: Hashable,
        generation: Hashable,
        now: float,
    ) -> _WrittenPage | None:
        response = self._application(Request("GET", request.path, {"accept": place[1]}))
        if response.status != 200:
            return None
        body = b"".join(response.body)
        etag = response.headers["etag"]
        headers = {**response.headers, "vary": "Accept, Accept-Encoding"}
        compressed = None
        if len(body) >= _WORTH_IT:
            compressed = _Form(
                gzip.compress(body, 6, mtime=0),
                # Another form has another tag, or a range of one would be put into the other.
                f'{etag[:-1]}-gzip"',
                {**headers, "content-encoding": "gzip"},
            )
        return _WrittenPage(stamp, generation, now, _Form(body, etag, headers), compressed)

    def _keep(self, place: tuple[str, str], page: _WrittenPage) -> None:
        with self._lock:
            old = self._pages.pop(place, None)
            self._size += page.size - (0 if old is None else old.size)
            self._pages[place] = page
            while self._size > self._room and len(self._pages) > 1:
                oldest = next(iter(self._pages))
                self._size -= self._pages.pop(oldest).size


def _place(request: Request) -> tuple[str, str] | None:
    """Return the project and the media type of a requested page; None: it is not a page."""
    if request.method not in ("GET", "HEAD"):
        return None
    match = _PAGE.fullmatch(request.path)
    if match is None:
        return None
    media_type = _type(request.headers.get("accept", "")[:_LONGEST])
    return None if media_type is None else (match[1] or "", media_type)


_LONGEST = 1000


@lru_cache(1024)
def _type(accept: str) -> str | None:
    return choose_type(accept or None)


def _page_response(request: Request, page: _WrittenPage) -> Response:
    form = page.plain
    if page.compressed is not None and accepts_gzip(request):
        form = page.compressed
    return content_response(
        request, form.body, len(form.body), etag=form.etag, headers=form.headers
    )
