"""Cached pages with revalidation, for installers and servers alike (RFC 9111).

Only the rules that every index follows are implemented: a page is fresh for its ``max-age`` (or the
operator's setting); then it is revalidated with its ``ETag`` or date, which takes a round trip but
no transfer.
"""

from __future__ import annotations

import re
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from wheelfit.core.digests import sha256_of
from wheelfit.sources.cache import Store, missing_page_key, page_key
from wheelfit.sources.client import PAGE_LIMIT, Answer, Client, unexpected
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.urls import origin, redact
from wheelfit_runtime.errors import InvalidPage, NetworkError, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Outcome: TypeAlias = Literal["fetched", "revalidated", "missing", "failed"]
_T = TypeVar("_T")
_MAX_FRESHNESS = 3600.0  # seconds; a longer one, such as a year, is usually a mistake
_DEFAULT_FRESHNESS = 600.0  # seconds
_CACHED_HEADERS = ("content-type", "content-encoding", "etag", "last-modified", "cache-control")
_KIND = "pages"
_MISSING = frozenset({404, 410})
_REFUSED = frozenset({401, 403, 407})
"""Statuses of a server that works; a stale page must not hide them."""
_FAILURE_PAUSE = 10.0
"""Seconds after a failure in which pages with copies are not requested again."""
_MAX_MISSING_PAGES = 20_000


class Copy(Struct, frozen=True):
    """A page as a server sent it."""

    body: bytes
    """The page; empty if it was left on disk."""
    url: str
    """Its URL after redirects, without credentials."""
    headers: Mapping[str, str]
    """By lower-case name: its type, its encoding, its validators and ``Cache-Control``."""
    checked: float
    """The time at which the server last confirmed it, in seconds since the epoch."""
    written: float = 0.0
    """The value of ``checked`` in the copy on disk; 0 if there is none."""
    digest: str = ""
    """SHA-256 of the body, if that is known."""

    @classmethod
    def of(cls, answer: Answer) -> Copy:
        """Return an answer as a copy that was never confirmed.

        :param answer: the answer of a server, with status 200.
        """
        return cls(answer.body, answer.url, answer.headers, 0.0)

    @property
    def answer(self) -> Answer:
        """The copy as an answer."""
        return Answer(200, self.headers, self.url, self.body)

    @property
    def has_body(self) -> bool:
        """Whether the body is here, and not only on disk."""
        return bool(self.body) or not self.digest

    @property
    def sha256(self) -> str:
        """SHA-256 of the body, in hexadecimal digits."""
        return self.digest or sha256_of(self.body).hex()

    def conditions(self) -> dict[str, str]:
        """Return the request headers by which a server sends the page only if it changed."""
        if "etag" in self.headers:
            return {"If-None-Match": self.headers["etag"]}
        if "last-modified" in self.headers and self.url.startswith("https:"):
            # With http, a date could be that of another server that ran on the same port of this
            # machine.
            return {"If-Modified-Since": self.headers["last-modified"]}
        return {}

    def has_same_page(self, other: Copy) -> bool:
        """Return whether another copy has the same page."""
        if self.url != other.url:
            return False
        is_same_object = self.body is other.body and self.digest == other.digest
        return is_same_object or self.sha256 == other.sha256

    def revalidated(self, headers: Mapping[str, str], now: float) -> Copy:
        """Return the copy as confirmed by an answer with status 304.

        :param headers: the headers of that answer.
        :param now: seconds since the epoch.
        """
        confirmed = {
            name: text for name, text in _cached_headers(headers).items() if "content-" not in name
        }
        return replace(self, headers={**self.headers, **confirmed}, checked=now)


class CachedPages(Struct, frozen=True):
    """Pages and other small files by URL without credentials, with copies on disk."""

    client: Client
    """Sends the requests."""
    store: Store
    """Keeps the copies."""
    offline: bool = False
    """Whether no server may be contacted; then a copy of any age counts."""
    refresh: bool = False
    """Whether even fresh copies are revalidated."""
    may_cache: Callable[[str], bool] = lambda _url: True
    """Returns whether a page from a URL may be cached: not if others could have changed it."""
    fresh_seconds: float | None = None
    """Seconds for which a copy is fresh; None: as stated by the server."""
    rewrite_age: float = 0.0
    """Seconds after which a copy on disk is written again if the server only confirmed it."""
    packed: bool = False
    """Whether bodies stay compressed as they were sent."""
    clock: Callable[[], float] = time.time
    """Returns seconds since the epoch."""

    def get(
        self, url: str, *, accept: str = "*/*", limit: int = PAGE_LIMIT, keep: bool = True
    ) -> Answer:
        """Return the answer to a request, from disk if the copy is fresh.

        :param limit: bytes of the longest body accepted.
        :param keep: whether it may be cached; False if the caller caches it by its hash.
        :raises Unreachable: also if offline and not cached.
        :raises UnexpectedStatus: as `Client.get`.
        """
        previous = self.load(url, accept)
        if previous is not None and self.is_usable(previous):
            return previous.answer
        answer = self.fetch(url, accept, previous, limit=limit)
        if isinstance(answer, Answer):
            return answer
        if keep:
            self.save(url, accept, answer, previous)
        return answer.answer

    def is_usable(self, copy: Copy) -> bool:
        """Return whether a copy can be used without a request to the server."""
        if self.offline:
            return True
        if self.refresh:
            return False
        # A negative age means that the clock was turned back, so the age is unknown.
        return 0 <= self.clock() - copy.checked < self.lifetime(copy)

    def current(self, url: str, accept: str) -> Copy | Answer:
        """Return the current copy of a page, if possible with its body left on disk.

        :return: the answer of the server if its status is neither 200 nor 304. Offline, a page that
            its server lacked before is missing, so that later indexes are read.
        :raises Unreachable: also if offline and not cached.
        :raises UnexpectedStatus: as `Client.get`.
        """
        previous = self.load(url, accept, has_body=False)
        if previous is not None and self.is_usable(previous):
            return previous
        missing_key = missing_page_key(url, self.client.user_at(url))
        if self.offline and (record := self.store.read(_KIND, missing_key)) is not None:
            return Answer(int(record.body), {}, url, b"")
        answer = self.fetch(url, accept, previous)
        if not isinstance(answer, Answer):
            return self.save(url, accept, answer, previous)
        if self.is_missing(answer, url) and self.may_cache(url) and self.may_cache(answer.url):
            self.store.write(_KIND, missing_key, {}, str(answer.status).encode())
        return answer

    def is_missing(self, answer: Answer, url: str) -> bool:
        """Return whether an answer means that its server lacks a page.

        Static hosts answer 403 for missing files. With a login it may mean a lack of permission,
        and another index must not supply a private project instead.

        :param url: the requested URL.
        """
        return answer.status in _MISSING or (answer.status == 403 and not self.client.user_at(url))

    def with_body(self, url: str, accept: str, copy: Copy) -> Copy:
        """Return a copy with its body, from disk or else from the server.

        :param copy: the result of `current`.
        :raises NetworkError: as `get`.
        """
        if copy.has_body:
            return copy
        stored = self.load(url, accept)
        if stored is not None and stored.sha256 == copy.digest:
            return replace(copy, body=stored.body)
        answer = self.get(url, accept=accept)  # another process has cleaned up, or replaced it
        if answer.status != 200:
            raise unexpected(answer.status, answer.url)
        return replace(copy, body=answer.body, digest="", url=answer.url, headers=answer.headers)

    def load(self, url: str, accept: str, *, has_body: bool = True) -> Copy | None:
        """Return the copy on disk, of any age; None if there is none.

        :param has_body: whether to read a long body as well.
        """
        read = self.store.read if has_body else self.store.read_head
        entry = read(_KIND, self._key(url, accept))
        if entry is None:
            return None
        headers = entry.head.get("headers")
        checked = entry.head.get("stored")  # the time of confirmation, as `save` writes it
        checked = float(checked) if isinstance(checked, (int, float)) else 0.0
        headers = headers if isinstance(headers, dict) else {}
        redirected_url = str(entry.head.get("url", url))
        return Copy(entry.body, redirected_url, headers, checked, checked, entry.sha256)

    def fetch(
        self, url: str, accept: str, previous: Copy | None, *, limit: int = PAGE_LIMIT
    ) -> Copy | Answer:
        """Fetch a page from its server; return the answer if its status is neither 200 nor 304.

        :param previous: the copy to revalidate; None: there is none.
        :param limit: bytes of the longest body accepted, decompressed unless it stays packed.
        :raises Unreachable: also if offline.
        :raises UnexpectedStatus: as `Client.get`.
        """
        if self.offline:
            raise offline(url)
        headers = {"Accept": accept, **(previous.conditions() if previous is not None else {})}
        answer = self.client.get(url, headers=headers, limit=limit, packed=self.packed)
        if answer.status == 304 and previous is not None:
            return previous.revalidated(answer.headers, self.clock())
        if answer.status != 200:
            return answer
        cached_headers = _cached_headers(answer.headers)
        if not self.packed:
            cached_headers.pop("content-encoding", None)
        return Copy(answer.body, answer.url, cached_headers, self.clock())

    def save(self, url: str, accept: str, copy: Copy, previous: Copy | None) -> Copy:
        """Write a copy to disk if that is allowed and useful.

        :param copy: the current copy; its body may be left out if it is on disk.
        :param previous: the previous copy; None: there was none.
        :return: the copy, with the time at which it was written.
        """
        control = copy.headers.get("cache-control", "").lower()
        if self.fresh_seconds is None and "no-store" in control:
            return copy
        if not (self.may_cache(url) and self.may_cache(copy.url)):
            return copy
        if previous is not None and self._is_saved(copy, previous):
            return replace(copy, written=previous.written)
        key = self._key(url, accept)
        body = copy.body
        if not copy.has_body:
            entry = self.store.read(_KIND, key)
            if entry is None or entry.sha256 != copy.digest:
                return copy  # another process has removed or replaced it
            body = entry.body
        head = {"stored": copy.checked, "url": copy.url, "headers": dict(copy.headers)}
        self.store.write(_KIND, key, head, body)
        return replace(copy, written=copy.checked)

    def _is_saved(self, copy: Copy, previous: Copy) -> bool:
        """Return whether the copy on disk need not be written again.

        It has the same page. Its time of confirmation is less than `rewrite_age` older; without a
        `rewrite_age`, the page has no lifetime, so the time has no effect.
        """
        if self.rewrite_age:
            is_recent = 0 <= copy.checked - previous.written < self.rewrite_age
            return is_recent and copy.has_same_page(previous)
        if self.lifetime(copy):
            return False
        return copy.headers == previous.headers and copy.has_same_page(previous)

    def lifetime(self, copy: Copy) -> float:
        """Return the seconds for which a copy is fresh."""
        if self.fresh_seconds is not None:
            return self.fresh_seconds
        return freshness_lifetime(copy.headers.get("cache-control", ""))

    def _key(self, url: str, accept: str) -> str:
        return page_key(url, accept, self.client.user_at(url), packed=self.packed)


class SharedPages(Generic[_T]):
    """Pages in the memory of a server; stale ones are served while their index is down.

    Concurrent requests for a page share one request to its index.

    :param memory: caches copies without bodies, and the values read from them, by URL and
        ``Accept`` header.
    :param missing: seconds for which a missing page is not requested again.
    :param waiting: returns a context manager for the wait for a page, also for that of another
        thread.
    :param fetching: returns a context manager for a request.
    :param stale: seconds for which a stale copy is served while its index is down.
    :param note_stale: called with the URL and the age of a stale copy served, in seconds, and the
        reason.
    :param note_request: called with the outcome of every request: ``fetched``, ``revalidated`` if
        the page is the same, ``missing`` or ``failed``.
    """

    def __init__(
        self,
        pages: CachedPages,
        memory: MemoryCache[tuple[Copy, _T]],
        *,
        missing: float = 0.0,
        stale: float = 0.0,
        waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
        fetching: Callable[[], AbstractContextManager[object]] = nullcontext,
        note_stale: Callable[[str, float, NetworkError], None] = lambda _url, _age, _error: None,
        note_request: Callable[[Outcome], None] = lambda _outcome: None,
    ) -> None:
        self._pages = pages
        self._memory = memory
        self._absent: MemoryCache[float] = MemoryCache(_MAX_MISSING_PAGES, lambda _time: 1)
        self._missing = missing
        self._stale = max(stale, pages.fresh_seconds or 0.0) if stale else 0.0
        self._waiting = waiting
        self._fetching = fetching
        self._note_stale = note_stale
        self._note_request = note_request
        self._failure: tuple[float, NetworkError] | None = None

    @property
    def last_error(self) -> NetworkError | None:
        """The error of the last request for a page; None if there was an answer."""
        return None if self._failure is None else self._failure[1]

    def get(self, url: str, accept: str, read: Callable[[Answer], _T]) -> tuple[Copy, _T] | None:
        """Return a page and the value read from it; None if its server lacks the page.

        :param url: without credentials.
        :raises NetworkError: the server cannot be read, and no copy may be served.
        """
        key = (url, accept)
        cached = self._memory.peek(key)
        if cached is not None and self._pages.is_usable(cached[0]):
            return cached
        if cached is None and self._is_absent(key):
            return None
        try:
            with self._waiting():
                return self._memory.call_locked(key, lambda: self._lookup(key, read))
        except Unreachable:
            cached = cached or self._stored(key, read)
            if self._may_serve(cached):
                return cached
            raise

    def expire(self, url: str, accept: str) -> None:
        """Mark a page for revalidation at the next request."""
        cached = self._memory.peek((url, accept))
        if cached is not None:
            # Only just stale, so that it can still be served while the index is down.
            before = self._pages.clock() - self._pages.lifetime(cached[0])
            copy = replace(cached[0], checked=min(cached[0].checked, before))
            self._memory.put((url, accept), (copy, cached[1]))

    def _is_recent(self, since: float, seconds: float) -> bool:
        return 0 <= self._pages.clock() - since < seconds

    def _is_absent(self, key: tuple[str, str]) -> bool:
        since = self._absent.peek(key)
        return since is not None and self._is_recent(since, self._missing)

    def _may_serve(self, cached: tuple[Copy, _T] | None) -> bool:
        return cached is not None and self._pages.clock() - cached[0].checked < self._stale

    def _lookup(self, key: tuple[str, str], read: Callable[[Answer], _T]) -> tuple[Copy, _T] | None:
        cached = self._memory.peek(key)  # another thread may have fetched it meanwhile
        if cached is None:
            if self._is_absent(key):
                return None
            cached = self._stored(key, read)
        if cached is not None and self._pages.is_usable(cached[0]):
            self._memory.put(key, cached)
            return cached
        since, failure = self._failure or (0.0, None)
        # A server with one invalid page still answers requests for others.
        is_paused = failure is not None and not isinstance(failure, InvalidPage)
        if is_paused and self._is_recent(since, _FAILURE_PAUSE) and self._may_serve(cached):
            return cached
        try:
            with self._fetching():
                result = self._fetch(key, cached, read)
        except NetworkError as error:
            self._note_request("failed")
            if isinstance(error, UnexpectedStatus) and error.status in _REFUSED:
                raise
            if is_from_server(key[0], error):
                self._failure = (self._pages.clock(), error)
            if cached is None or not self._may_serve(cached):
                raise
            self._memory.put(key, cached)
            self._note_stale(key[0], self._pages.clock() - cached[0].checked, error)
            return cached
        self._failure = None
        if result is None:
            self._note_request("missing")
            self._memory.forget(key)
            self._absent.put(key, self._pages.clock())
        else:
            self._memory.put(key, result)
        return result

    def _fetch(
        self,
        key: tuple[str, str],
        cached: tuple[Copy, _T] | None,
        read: Callable[[Answer], _T],
    ) -> tuple[Copy, _T] | None:
        url, accept = key
        previous = None if cached is None else cached[0]
        answer = self._pages.fetch(url, accept, previous)
        if isinstance(answer, Answer):
            if self._pages.is_missing(answer, url):
                return None
            raise unexpected(answer.status, answer.url)
        is_same = cached is not None and answer.has_same_page(cached[0])
        content = cached[1] if cached is not None and is_same else read(answer.answer)
        self._note_request("revalidated" if is_same else "fetched")
        written = self._pages.save(url, accept, answer, previous)
        return replace(written, body=b"", digest=written.sha256), content

    def _stored(self, key: tuple[str, str], read: Callable[[Answer], _T]) -> tuple[Copy, _T] | None:
        """Return the copy on disk and its value; None if there is none or it cannot be read.

        A copy from before its server lacked the page does not count.
        """
        copy = self._pages.load(*key)
        absent_since = self._absent.peek(key)
        if copy is None or (absent_since is not None and copy.checked <= absent_since):
            return None
        try:
            return replace(copy, body=b"", digest=copy.sha256), read(copy.answer)
        except InvalidPage:  # another version of wheelfit, with another parser, has stored it
            return None


def is_from_server(url: str, error: NetworkError) -> bool:
    """Return whether an error comes from the server of a URL, not from the target of a redirect."""
    try:
        return error.where is None or origin(error.where) == origin(url)
    except ValueError:
        return True


def offline(url: str) -> Unreachable:
    """Return the error for a request that is not possible offline."""
    return Unreachable(
        "wheelfit is offline, and this URL is not in the cache",
        where=redact(url),
        hint="run it without --offline, or name a folder with --find-links",
    )


def freshness_lifetime(control: str) -> float:
    """Return the seconds for which an answer is fresh.

    :param control: its ``Cache-Control``; empty if there is none.
    """
    control = control.lower()
    if "no-cache" in control:
        return 0.0
    match = re.search(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,12})", control)
    return min(float(match[1]), _MAX_FRESHNESS) if match else 0.0


def fresh_seconds_of(headers: Mapping[str, str]) -> float:
    """Return the seconds for which a result derived from an answer is valid.

    If the server states no time, that of PyPI is used (heuristic freshness, RFC 9111, 4.2.2).
    """
    control = headers.get("cache-control", "").lower()
    is_stated = any(word in control for word in ("max-age", "no-cache", "no-store"))
    return freshness_lifetime(control) if is_stated else _DEFAULT_FRESHNESS


def _cached_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _CACHED_HEADERS if name in headers}
