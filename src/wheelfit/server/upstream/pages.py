"""Pages of an upstream index: remembered, asked about anew after a while, old ones in need.

How long a page counts is the operator's to say and not the upstream's, which cannot know how many
stand behind the mirror. To ask again costs a request without a body where the upstream gives
an ``ETag`` or a date.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from wheelfit.server.memory import Memory
from wheelfit.server.page_requests import ask_for_page, is_of_index, upstream_of
from wheelfit.sources.body import read_body
from wheelfit.sources.client import PAGE_LIMIT, Answer
from wheelfit.sources.page import ACCEPT
from wheelfit.sources.parsed_pages import ParsedPages
from wheelfit.sources.urls import redact, split_userinfo
from wheelfit_runtime.errors import InvalidPage, NetworkError, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.server.dependency import Dependency
    from wheelfit.sources.open import Web
    from wheelfit.sources.page import ProjectPage


MOST = 12
"""Threads that may use all upstreams of a server together; half of those that it has."""
_KIND = "pages"
_FORM = "mirror 1"
"""Begins the keys of what is kept; raised whenever an entry changes."""
_REFUSED = frozenset({401, 403, 407})
"""What is not an upstream that is down: whoever may not read a page gets no old one either."""
_LASTING = ("content-type", "etag", "last-modified")
_AGAIN = 10.0
"""Seconds in which an upstream that failed is not asked again for pages that can be had here."""
_SELDOM = 3600.0
_MOST = 64 << 20
_FILE = 700
"""Bytes of memory that an entry of a page takes, roughly."""
_MOST_MISSING = 20_000


@dataclass(frozen=True, slots=True)
class Known:
    """Hold a page, and when it was right."""

    page: ProjectPage
    """As the upstream has it."""
    digest: str
    """SHA-256 of the page as it came; as long as it stays the page does."""
    headers: Mapping[str, str]
    """What a later request is made conditional with."""
    url: str
    """Where it was found, after redirects."""
    asked: float
    """When the upstream said so last, in seconds since the epoch."""
    kept: float = 0.0
    """The same, as it was written to the disk."""


class Pages:
    """Give the pages of one index.

    :param url: of the index; without credentials, those the web has.
    :param web: asks, and keeps pages on disk.
    :param name: how people know the index.
    :param fresh: seconds in which a page counts without asking.
    :param missing: seconds in which "there is no such project" counts.
    :param stale: seconds for which a page is given although the upstream is down.
    :param may_keep: tells from a URL whether its page may be kept on disk.
    :param note: told of pages that are old.
    :param clock: seconds since the epoch.
    :param upstream: limits who uses the upstream; by default one of its own.
    """

    def __init__(
        self,
        url: str,
        web: Web,
        *,
        name: str,
        fresh: float = 60.0,
        missing: float = 60.0,
        stale: float = 7 * 86400.0,
        may_keep: Callable[[str], bool] = lambda _url: True,
        note: Callable[[str], None] = lambda _text: None,
        clock: Callable[[], float] = time.time,
        upstream: Dependency | None = None,
    ) -> None:
        self._url = split_userinfo(url)[0].rstrip("/")
        self._web = web
        self._name = name
        self._fresh = fresh
        self._missing = missing
        self._stale = stale
        self._may_keep = may_keep
        self._note = note
        self._clock = clock
        self._upstream = upstream if upstream is not None else upstream_of(url, MOST)
        self._pages: Memory[Known] = Memory(_MOST, lambda one: _FILE * (len(one.page.files) + 2))
        self._absent: Memory[float] = Memory(_MOST_MISSING, lambda _one: 1)
        self._trouble: tuple[float, NetworkError] | None = None

    @property
    def in_trouble(self) -> NetworkError | None:
        """What went wrong when the upstream was asked last; None if it answered."""
        return None if self._trouble is None else self._trouble[1]

    def get(self, name: NormalizedName) -> Known | None:
        """Return the page of a project, or None if the upstream does not know it.

        :param name: the normalised name.
        :raises NetworkError: the upstream cannot be read, and nothing is kept that may be given.
        """
        known = self._pages.peek(name)
        if known is not None and self._counts(known.asked, self._fresh):
            return known
        if known is None and self._is_absent(name):
            return None
        try:
            with self._upstream.asked(is_elsewhere=True):
                return self._pages.alone(name, lambda: self._look(name))
        except Unreachable:
            known = known or self._kept(name)
            if self._may_give(known):
                return known
            raise

    def expire(self, name: NormalizedName) -> None:
        """Ask anew the next time: something does not fit what the page says.

        :param name: whose page.
        """
        known = self._pages.peek(name)
        if known is not None:
            before = self._clock() - self._fresh
            self._pages.put(name, replace(known, asked=min(known.asked, before)))

    def _counts(self, since: float, seconds: float) -> bool:
        return 0 <= self._clock() - since < seconds

    def _is_absent(self, name: NormalizedName) -> bool:
        since = self._absent.peek(name)
        return since is not None and self._counts(since, self._missing)

    def _look(self, name: NormalizedName) -> Known | None:
        known = self._pages.peek(name)  # somebody else may have asked meanwhile
        if known is not None and self._counts(known.asked, self._fresh):
            return known
        if known is None and self._is_absent(name):
            return None
        if known is None:
            known = self._kept(name)
            if known is not None and self._counts(known.asked, self._fresh):
                self._pages.put(name, known)
                return known
        trouble = self._trouble
        if trouble is not None and self._counts(trouble[0], _AGAIN) and self._may_give(known):
            return known
        try:
            with self._upstream.answering():
                found = self._ask(name, known)
        except NetworkError as error:
            if isinstance(error, UnexpectedStatus) and error.status in _REFUSED:
                raise
            if is_of_index(self._url, error):
                self._trouble = (self._clock(), error)
            if known is None or not self._may_give(known):
                raise
            self._pages.put(name, known)
            age = int((self._clock() - known.asked) // 60)
            self._note(
                f"{name} is served as {self._name} listed it {age} minutes ago, "
                f"because {error.message}"
            )
            return known
        self._trouble = None
        if found is None:
            self._pages.forget(name)
            self._absent.put(name, self._clock())
        else:
            self._pages.put(name, found)
        return found

    def _may_give(self, known: Known | None) -> bool:
        return known is not None and self._clock() - known.asked < max(self._stale, self._fresh)

    def _ask(self, name: NormalizedName, known: Known | None) -> Known | None:
        url = f"{self._url}/{quote(name, safe='')}/"
        found = ask_for_page(
            self._web.client,
            url,
            ACCEPT,
            known=None if known is None else (known.headers, known.url),
            read=lambda response, where: read_body(response, PAGE_LIMIT, where=redact(where)),
        )
        if found is None:
            return None
        now, body = self._clock(), found.content
        headers = _lasting(found.headers)
        if known is not None and body is None:
            return self._keep(name, replace(known, headers=headers, asked=now), None)
        body = body or b""
        digest = hashlib.sha256(body).hexdigest()
        if known is not None and known.digest == digest and known.url == found.url:
            return self._keep(name, replace(known, headers=headers, asked=now), None)
        page = self._parsed(name, body, headers, found.url)
        return self._keep(name, Known(page, digest, headers, found.url, now), body)

    def _parsed(
        self, name: NormalizedName, body: bytes, headers: Mapping[str, str], url: str
    ) -> ProjectPage:
        answer = Answer(200, headers, url, body)
        return ParsedPages(self._web.store).page(answer, name, source=self._name)

    # --- on disk --------------------------------------------------------------------

    def _key(self, name: NormalizedName) -> str:
        return f"{_FORM}\n{self._web.client.user_at(self._url)}\n{self._url}\n{name}"

    def _keep(self, name: NormalizedName, known: Known, body: bytes | None) -> Known:
        """Write a page, or now and then when it was right last."""
        if not (self._may_keep(self._url) and self._may_keep(known.url)):
            return known
        key = self._key(name)
        if body is None:
            if known.asked - known.kept < _SELDOM:
                return known
            entry = self._web.store.read(_KIND, key)
            if entry is None:
                return known
            body = entry.body
        head = {"url": known.url, "headers": dict(known.headers), "asked": known.asked}
        self._web.store.write(_KIND, key, head, body)
        return replace(known, kept=known.asked)

    def _kept(self, name: NormalizedName) -> Known | None:
        entry = self._web.store.read(_KIND, self._key(name))
        if entry is None:
            return None
        url, headers, asked = (entry.head.get(key) for key in ("url", "headers", "asked"))
        if not (
            isinstance(url, str) and isinstance(headers, dict) and isinstance(asked, (int, float))
        ):
            return None
        try:
            page = self._parsed(name, entry.body, headers, url)
        except InvalidPage:  # of a version that understood more
            return None
        digest = hashlib.sha256(entry.body).hexdigest()
        return Known(page, digest, headers, url, asked, asked)


def _lasting(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in _LASTING if name in headers}
