"""Pages with memory: fresh ones come from disk, others are revalidated, never guessed.

Of HTTP's rules for caches only those are used that every index knows: what the
server calls fresh (``max-age``) is taken as it is, everything else is asked
about again with its ``ETag`` or date, which costs a round trip and no bytes.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from wheelfit.sources.cache import key_of
from wheelfit.sources.client import PAGE_LIMIT, Answer
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wheelfit.sources.cache import Entry, Store
    from wheelfit.sources.client import Client


_LONGEST_FRESHNESS = 3600.0  # seconds; a page that must not change for a year is a mistake
_KEPT = ("content-type", "etag", "last-modified", "cache-control")
_KIND = "pages"


class CachedPages:
    """Fetch pages and other small things by URL.

    :param client: asks the servers.
    :param store: remembers.
    :param offline: ask nobody; what is kept counts, however old.
    :param refresh: ask even about what is still fresh.
    :param may_keep: tells from a URL whether its answers may be kept; what came
        over an unprotected connection should not be.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        client: Client,
        store: Store,
        *,
        offline: bool = False,
        refresh: bool = False,
        may_keep: Callable[[str], bool] = lambda _url: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._store = store
        self._offline = offline
        self._refresh = refresh
        self._may_keep = may_keep
        self._clock = clock

    @property
    def client(self) -> Client:
        """Who asks the servers when something is not a page."""
        return self._client

    @property
    def store(self) -> Store:
        """What remembers."""
        return self._store

    @property
    def offline(self) -> bool:
        """Whether no server may be asked."""
        return self._offline

    def get(
        self, url: str, *, accept: str = "*/*", limit: int = PAGE_LIMIT, keep: bool = True
    ) -> Answer:
        """Return the answer to a request, from disk if that is as good.

        :param url: without credentials.
        :param limit: bytes of the longest body accepted.
        :param keep: whether it may be kept; not where the caller keeps it by its hash.
        :raises Unreachable: also when offline and nothing is kept.
        :raises UnexpectedStatus: as `Client.get`.
        """
        key = key_of("page", 1, self._client.user_at(url), accept, url)
        entry = self._store.read(_KIND, key)
        if entry is not None and (self._offline or self._is_fresh(entry)):
            return _answer(entry, url)
        if self._offline:
            raise offline(url)
        known = {} if entry is None else _headers(entry)
        headers = {"Accept": accept, **conditions(known, url)}
        answer = self._client.get(url, headers=headers, limit=limit)
        if answer.status == 304 and entry is not None:
            merged = {**_headers(entry), **_kept(answer.headers)}
            self._keep(key, url, Answer(200, merged, str(entry.head["url"]), entry.body), entry)
            return _answer(entry, url)
        if answer.status == 200 and keep:
            self._keep(key, url, answer, entry)
        return answer

    def _is_fresh(self, entry: Entry) -> bool:
        if self._refresh:
            return False
        stored = entry.head.get("stored")
        age = self._clock() - stored if isinstance(stored, (int, float)) else -1.0
        # A negative age means that the clock was turned back: do not rely on it.
        return 0 <= age < freshness(_headers(entry).get("cache-control", ""))

    def _keep(self, key: str, url: str, answer: Answer, entry: Entry | None) -> None:
        control = answer.headers.get("cache-control", "").lower()
        if "no-store" in control or not (self._may_keep(url) and self._may_keep(answer.url)):
            return
        if entry is not None and not freshness(control) and _is_same(entry, answer):
            return  # nothing would change but the time, for which nobody asks
        head = {"stored": self._clock(), "url": answer.url, "headers": _kept(answer.headers)}
        self._store.write(_KIND, key, head, answer.body)


def offline(url: str) -> Unreachable:
    """Return the error for something that would need a server while offline."""
    return Unreachable(
        "wheelfit is offline and has no copy of this",
        where=redact(url),
        hint="run once without --offline, or name a folder with --find-links",
    )


def freshness(control: str) -> float:
    """Return for how many seconds an answer counts without asking again.

    :param control: its ``Cache-Control``; empty if there is none.
    """
    control = control.lower()
    if "no-cache" in control:
        return 0.0
    match = re.search(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,12})", control)
    return min(float(match[1]), _LONGEST_FRESHNESS) if match else 0.0


def conditions(headers: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the headers that ask for a page only if it has changed.

    :param headers: what came with the page.
    :param url: where it came from.
    """
    if "etag" in headers:
        return {"If-None-Match": headers["etag"]}
    if "last-modified" in headers and url.startswith("https:"):
        # A date tells two states of one page apart, but not the pages of two
        # servers that were tried on one port of this machine.
        return {"If-Modified-Since": headers["last-modified"]}
    return {}


def _headers(entry: Entry) -> dict[str, str]:
    headers = entry.head.get("headers")
    return dict(headers) if isinstance(headers, dict) else {}


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _KEPT if name in headers}


def _is_same(entry: Entry, answer: Answer) -> bool:
    return (
        entry.body == answer.body
        and entry.head.get("url") == answer.url
        and _headers(entry) == _kept(answer.headers)
    )


def _answer(entry: Entry, url: str) -> Answer:
    return Answer(200, _headers(entry), str(entry.head.get("url", url)), entry.body)
