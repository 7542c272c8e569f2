"""A cache of pages in memory, plain and compressed, with stamps to detect outdated ones."""

from __future__ import annotations

import gzip
import threading
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from wheelfit.errors import StorageUnavailable
from wheelfit.server.messages import Application, Request, Response, accepts_gzip, content_response
from wheelfit.server.pages import choose_type
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.sources.repository import Index


_MAX_SIZE = 128 << 20
_GENERATION_MAX_AGE = 0.1
_USUAL_DURATION = 0.25
"""Seconds in which the database normally returns the generation."""
_GENERATION_TIMEOUT = 2.0
"""Seconds for which a request waits for the generation if there is no stale page."""
_RETRY_PAUSE = 0.5
"""Seconds after a failure until the generation is read again."""
_MAX_STALE_AGE = 3600.0
_ALL_PROJECTS = ""
_MAX_CHANGES = 10_000
"""Projects whose last changes are recorded one by one."""
_MIN_COMPRESSED_SIZE = 600
"""Bytes from which a page is compressed; a packet has more than twice as many."""
_MAX_ACCEPT_LENGTH = 1000
_PAGE = pattern(r"/simple/(?:([a-z0-9]+(?:-[a-z0-9]+)*)/)?")


@dataclass(frozen=True, slots=True)
class _Encoding:
    """A page as it is sent: plain, or compressed."""

    body: bytes
    etag: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _WrittenPage:
    """A page in both encodings."""

    stamp: Hashable
    generation: Hashable
    """The last generation in which the page was up to date."""
    checked_at: float
    """The time when that was determined."""
    plain: _Encoding
    compressed: _Encoding | None

    @property
    def size(self) -> int:
        packed = 0 if self.compressed is None else len(self.compressed.body)
        return len(self.plain.body) + packed


class PageCache:
    """A cache of the pages of the Simple API in memory: an `Application` around another.

    A page is up to date while the generation is the one of its last check. After a change of the
    generation, its own stamp is compared. The generation is read again after `max_age`, so that a
    change of another process shows with that delay, and one of this process at once.

    While the database does not answer, a stale page is served, unless it was up to date longer ago
    than `max_stale_age`, or this process has changed it since.

    :param generation: returns a value that stays equal as long as all pages do; called in a thread.
    :param is_shared: returns whether a page of a project, or ``""`` for the list of projects, is
        the same for all readers; other pages are not cached. None: all pages are the same.
    :param max_size: bytes of memory for pages.
    :param max_age: seconds for which a generation is valid; after half of them it is read again.
    :param max_stale_age: seconds for which a page is served while the database does not answer.
    """

    def __init__(
        self,
        application: Application,
        index: Index,
        generation: Callable[[], Hashable],
        *,
        is_shared: Callable[[str], bool] | None = None,
        max_size: int = _MAX_SIZE,
        max_age: float = _GENERATION_MAX_AGE,
        max_stale_age: float = _MAX_STALE_AGE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application = application
        self._index = index
        self._generation = generation
        self._is_shared = is_shared
        self._max_age = max_age
        self._refresh_age = max_age / 2
        self._last_refresh = float("-inf")
        self._max_stale_age = max_stale_age
        self._clock = clock
        self._pages: MemoryCache[_WrittenPage] = MemoryCache(max_size, lambda page: page.size)
        self._generation_lock = threading.Lock()
        self._reading_since: float | None = None
        self._last_failure = float("-inf")
        self._last_generation: tuple[float, Hashable] = (float("-inf"), None)
        """The time when it was read, and its value."""
        self._last_change = float("-inf")
        self._change_times: dict[str, float] = {}

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        key = _page_key(request)
        if key is None or not (self._is_shared is None or self._is_shared(key[0])):
            return self._application(request)
        try:
            page = self._current_page(request, key)
        except StorageUnavailable:
            page = self._stale_page(key)
            if page is None:
                raise
        return self._application(request) if page is None else _page_response(request, page)

    def _current_page(self, request: Request, key: tuple[str, str]) -> _WrittenPage | None:
        """Return a page that is up to date; None if it cannot be cached."""
        generation = self._current_generation(has_stale_page=self._stale_page(key) is not None)
        page = self._pages.peek(key)
        if page is not None and page.generation == generation:
            return page
        name = key[0]
        now = self._clock()
        # Read before the page is created, which may then be newer than its stamp, but never older.
        stamp = self._index.stamp(cast("NormalizedName", name)) if name else generation
        if stamp is None:
            return None
        if page is not None and page.stamp == stamp:
            page = replace(page, generation=generation, checked_at=now)
        else:
            page = self._write(request, key, stamp, generation, now)
        if page is not None:
            self._pages.put(key, page)
        return page

    def _stale_page(self, key: tuple[str, str]) -> _WrittenPage | None:
        """Return a page that was up to date at most `max_stale_age` ago; None if there is none."""
        page = self._pages.peek(key)
        if page is None:
            return None
        read_at, generation = self._last_generation
        checked_at = page.checked_at
        if page.generation == generation:  # reading it confirmed the page
            checked_at = max(checked_at, read_at)
        change_times, never = self._change_times, float("-inf")
        if key[0]:
            changed_at = max(change_times.get(name, never) for name in (_ALL_PROJECTS, key[0]))
        else:
            changed_at = self._last_change  # every change may concern the list of all projects
        is_older = checked_at <= changed_at or self._clock() - checked_at > self._max_stale_age
        return None if is_older else page

    def cached_response(self, request: Request) -> Response | None:
        """Return the response if it is cached and up to date; None: call the application."""
        key = _page_key(request)
        page = None if key is None else self._pages.peek(key)
        if key is None or page is None:
            return None
        if self._is_shared is not None and not self._is_shared(key[0]):
            return None
        read_at, generation = self._last_generation
        now = self._clock()
        age = now - read_at
        is_generation_recent = age <= self._max_age and read_at > self._last_change
        needs_early_read = age > self._refresh_age and self._last_refresh <= read_at
        if page.generation != generation or not is_generation_recent:
            page = self._stale_page(key) if self._is_unreachable(now) else None
        elif needs_early_read:
            # One request reads the generation early, so that others do not wait for it.
            self._last_refresh = now
            return None
        return None if page is None else _page_response(request, page)

    def record_change(self, project: str = _ALL_PROJECTS) -> None:
        """Record that this process has changed the page of a project, by default of any."""
        now = self._last_change = self._clock()
        if project == _ALL_PROJECTS or len(self._change_times) >= _MAX_CHANGES:
            self._change_times = {_ALL_PROJECTS: now}
        else:
            self._change_times[project] = now

    def _is_unreachable(self, now: float) -> bool:
        """Return whether the generation cannot be read at the moment."""
        reading_since = self._reading_since
        return now - self._last_failure < _RETRY_PAUSE or (
            reading_since is not None and now - reading_since > _USUAL_DURATION
        )

    def _current_generation(self, *, has_stale_page: bool) -> Hashable:
        """Return the generation, which one thread reads while the others wait for it.

        :param has_stale_page: whether a stale page can be served instead, after a shorter wait.
        """
        if self._is_fresh():
            return self._last_generation[1]
        if not self._generation_lock.acquire(
            timeout=_USUAL_DURATION if has_stale_page else _GENERATION_TIMEOUT
        ):
            raise StorageUnavailable("the database does not answer", cause="unresponsive")
        try:
            if not self._is_fresh():
                now = self._reading_since = self._clock()
                self._last_generation = (now, self._generation())
            return self._last_generation[1]
        except StorageUnavailable:
            self._last_failure = self._clock()
            raise
        finally:
            self._reading_since = None
            self._generation_lock.release()

    def _is_fresh(self) -> bool:
        """Return whether the generation is recent enough."""
        since = self._last_generation[0]
        return self._clock() - since <= self._refresh_age and since > self._last_change

    def _write(
        self,
        request: Request,
        key: tuple[str, str],
        stamp: Hashable,
        generation: Hashable,
        now: float,
    ) -> _WrittenPage | None:
        response = self._application(Request("GET", request.path, {"accept": key[1]}))
        if response.status != 200:
            return None
        body = b"".join(response.body)
        etag = response.headers["etag"]
        headers = {**response.headers, "vary": "Accept, Accept-Encoding"}
        compressed = None
        if len(body) >= _MIN_COMPRESSED_SIZE:
            compressed = _Encoding(
                gzip.compress(body, 6, mtime=0),
                # Each encoding has its own tag: clients must not combine ranges of both.
                f'{etag[:-1]}-gzip"',
                {**headers, "content-encoding": "gzip"},
            )
        return _WrittenPage(stamp, generation, now, _Encoding(body, etag, headers), compressed)


def _page_key(request: Request) -> tuple[str, str] | None:
    """Return the project and the media type of a requested page; None: it is not a page."""
    if request.method not in ("GET", "HEAD"):
        return None
    match = _PAGE.fullmatch(request.path)
    if match is None:
        return None
    media_type = _media_type(request.headers.get("accept", "")[:_MAX_ACCEPT_LENGTH])
    return None if media_type is None else (match[1] or "", media_type)


@lru_cache(1024)
def _media_type(accept: str) -> str | None:
    return choose_type(accept or None)


def _page_response(request: Request, page: _WrittenPage) -> Response:
    encoding = page.plain
    if page.compressed is not None and accepts_gzip(request):
        encoding = page.compressed
    return content_response(
        request, encoding.body, len(encoding.body), etag=encoding.etag, headers=encoding.headers
    )
