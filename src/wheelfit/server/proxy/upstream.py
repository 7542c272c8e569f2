"""An index that the proxy stands in front of, and its pages as they came.

Most projects have no variants. Of their pages nothing is read but whether the name of a
``-variants.json`` occurs; they are kept packed as they came, and handed on.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from wheelfit.server.memory import Memory
from wheelfit.server.page_requests import ask_for_page, upstream_of
from wheelfit.server.proxy.links import with_lasting_links
from wheelfit.sources.cached import freshness, offline
from wheelfit.sources.client import PAGE_LIMIT, Answer, unreachable
from wheelfit.sources.page import ACCEPT, VARIANTS_SUFFIX
from wheelfit.sources.parsed_pages import ParsedPages
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import is_loopback, origin, redact, split_userinfo
from wheelfit_runtime.errors import InvalidPage, UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from packaging.utils import NormalizedName

    from wheelfit.server.page_requests import Found
    from wheelfit.sources.cache import Entry
    from wheelfit.sources.open import Web
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.transport import Response


_ACCEPT_HTML = "application/vnd.pypi.simple.v1+html, text/html; q=0.9"
_KIND = "pages"
_FORM = "raw 2"
"""Begins the keys of what is kept here; raised whenever an entry changes."""
_MARK = VARIANTS_SUFFIX.encode()
_WITHHELD = b"quarantined"
_MOST_IN_MEMORY = 64 << 20
_MOST_WAITING = 24
"""Threads that may use one index at once, of the 64 of a server."""
_PART = 1 << 14


@dataclass(frozen=True, slots=True)
class RawPage:
    """Hold a page as it may be served."""

    body: bytes
    """The page, packed if `encoding` says so."""
    encoding: str
    """``gzip``, or empty."""
    content_type: str
    url: str
    """Where it was found, after redirects, without credentials."""
    digest: str
    """SHA-256 of the page, decompressed."""
    has_variants: bool
    """Whether some release has variants."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What a later request is made conditional with, and how long it is fresh."""
    asked: float = 0.0
    """When the index said so last, in seconds since the epoch."""
    may_be_quarantined: bool = False
    """Whether the page has to be understood before it is handed on (PEP 792)."""

    @property
    def plain(self) -> bytes:
        """The page, decompressed."""
        return _unpacked(self.body, self.url) if self.encoding else self.body


class Upstream:
    """Give the pages and files of one index.

    :param url: of the index, usually ending with ``/simple/``.
    :param web: fetches; it holds the credentials, and knows where it may not be sent.
    :param clock: seconds since the epoch.
    :param most: bytes of pages that are kept in memory; all of them are on disk too.
    """

    def __init__(
        self,
        url: str,
        web: Web,
        *,
        clock: Callable[[], float] = time.time,
        most: int = _MOST_IN_MEMORY,
    ) -> None:
        self.url = split_userinfo(url)[0].rstrip("/")
        """Without credentials and final slash."""
        self.name = redact(url)
        """How people know it."""
        self.web = web
        """What fetches."""
        self._clock = clock
        self._dependency = upstream_of(self.url, _MOST_WAITING)
        self._pages: Memory[RawPage] = Memory(most, lambda page: len(page.body) + 1024)
        self._parsed: Memory[ProjectPage] = Memory(64, lambda _page: 1)

    @property
    def has_login(self) -> bool:
        """Whether it is asked with a login."""
        return bool(self.web.client.user_at(f"{self.url}/"))

    def wants_login(self, url: str) -> bool:
        """Return whether a URL is asked for with a login, which clients do not have.

        :param url: without credentials.
        """
        return bool(self.web.client.user_at(url))

    def raw(self, name: NormalizedName, *, html: bool = False) -> RawPage | None:
        """Return the page of a project, or None if the index does not know it.

        :param name: the normalised name.
        :param html: whether JSON would be of no use.
        :raises NetworkError: the index cannot be read, or answers with no page.
        """
        return self._raw(f"{self.url}/{quote(name, safe='')}/", html=html)

    def root(self) -> RawPage | None:
        """Return the list of all projects; None if there is none.

        :raises NetworkError: the index cannot be read.
        """
        return self._raw(f"{self.url}/", html=False)

    def parsed(self, name: NormalizedName, page: RawPage) -> ProjectPage:
        """Return what a page says.

        :param name: whose page it is.
        :param page: of this index.
        :raises InvalidPage: it is no page of the Simple API.
        """

        def parse() -> ProjectPage:
            answer = Answer(200, {"content-type": page.content_type}, page.url, page.plain)
            return ParsedPages(self.web.store).page(answer, name, source=self.name)

        return self._parsed.get((name, page.digest), parse)

    def _raw(self, url: str, *, html: bool) -> RawPage | None:
        accept = _ACCEPT_HTML if html else ACCEPT
        key = f"{_FORM}\n{self.web.client.user_at(url)}\n{accept}\n{url}"
        known = self._pages.peek(key)
        if known is not None and self._is_fresh(known):
            return known

        def look() -> RawPage | None:
            again = self._pages.peek(key)  # somebody else may have asked meanwhile
            if again is not None and self._is_fresh(again):
                return again
            return self._ask(key, url, accept, again or self._kept(key))

        return self._pages.alone(key, look)

    def _is_fresh(self, page: RawPage) -> bool:
        age = self._clock() - page.asked
        fresh = freshness(page.headers.get("cache-control", ""))
        return 0 <= age < fresh or self.web.pages.offline

    def _ask(self, key: str, url: str, accept: str, known: RawPage | None) -> RawPage | None:
        """Ask the index, and keep what it says."""
        if known is not None and self._is_fresh(known):
            self._pages.put(key, known)
            return known
        if self.web.pages.offline:
            raise offline(url)
        with self._dependency.asked():
            found = ask_for_page(
                self.web.client,
                url,
                accept,
                known=None if known is None else (known.headers, known.url),
                read=_read,
            )
        if found is None:
            return None
        page = self._page(found, known)
        self._pages.put(key, page)
        # Of what has not changed only the time would be new, which counts where it is fresh.
        if known is None or page.body is not known.body or "max-age" in str(page.headers):
            self._keep(key, page)
        return page

    def _page(self, found: Found[bytes], known: RawPage | None) -> RawPage:
        now, lasting = self._clock(), _lasting(found.headers)
        if known is not None and found.content is None:
            return replace(known, headers=lasting, asked=now)
        encoding = found.headers.get("content-encoding", "").strip().lower()
        if encoding not in {"", "identity", "gzip", "x-gzip"}:
            raise UnexpectedStatus(
                f"the page is encoded as {encoding!r}, which was not asked for",
                status=200,
                where=redact(found.url),
            )
        content_type = found.headers.get("content-type", "")
        body = found.content or b""
        return _made(body, "gzip" in encoding, content_type, found.url, lasting, now)

    # --- on disk --------------------------------------------------------------------

    def _kept(self, key: str) -> RawPage | None:
        entry = self.web.store.read(_KIND, key)
        return None if entry is None else _of_entry(entry)

    def _keep(self, key: str, page: RawPage) -> None:
        if "no-store" in page.headers.get("cache-control", "").lower():
            return
        where = origin(page.url)
        if where.scheme != "https" and not is_loopback(where.host):
            return  # anybody on the way could have changed it
        head = {
            "encoding": page.encoding,
            "type": page.content_type,
            "url": page.url,
            "digest": page.digest,
            "variants": page.has_variants,
            "quarantined": page.may_be_quarantined,
            "headers": dict(page.headers),
            "asked": page.asked,
        }
        self.web.store.write(_KIND, key, head, page.body)


def _made(
    body: bytes,
    packed: bool,  # noqa: FBT001 - of a private function
    content_type: str,
    url: str,
    headers: Mapping[str, str],
    asked: float,
) -> RawPage:
    plain = _unpacked(body, url) if packed else body
    try:
        lasting = with_lasting_links(plain, content_type, url)
    except ValueError:
        raise InvalidPage("the page cannot be understood", where=redact(url)) from None
    return RawPage(
        body if lasting is plain else lasting,
        "gzip" if packed and lasting is plain else "",
        content_type,
        url,
        hashlib.sha256(lasting).hexdigest(),
        _MARK in plain,
        headers,
        asked,
        _WITHHELD in plain,
    )


def _of_entry(entry: Entry) -> RawPage | None:
    head: Any = entry.head
    try:
        return RawPage(
            entry.body,
            str(head["encoding"]),
            str(head["type"]),
            str(head["url"]),
            str(head["digest"]),
            bool(head["variants"]),
            dict(head["headers"]),
            float(head["asked"]),
            bool(head["quarantined"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _read(response: Response, where: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for piece in response.chunks():
        size += len(piece)
        if size > PAGE_LIMIT:
            raise _too_long(where)
        pieces.append(piece)
    return b"".join(pieces)


def _unpacked(body: bytes, url: str) -> bytes:
    """Return a page, never more of it than a page may have."""
    pieces: list[bytes] = []
    size = 0
    inflater = zlib.decompressobj(wbits=31)
    try:
        # In parts: what is behind a member is copied, and of empty members there may be millions.
        for start in range(0, len(body), _PART):
            data = body[start : start + _PART]
            while data:
                if inflater.eof:  # gzip allows several members one after the other
                    inflater = zlib.decompressobj(wbits=31)
                piece = inflater.decompress(data, PAGE_LIMIT - size + 1)
                size += len(piece)
                if size > PAGE_LIMIT:
                    raise _too_long(url)
                if piece:
                    pieces.append(piece)
                data = inflater.unconsumed_tail or inflater.unused_data
    except zlib.error:
        raise UnexpectedStatus(
            "the page cannot be decompressed", status=200, where=redact(url)
        ) from None
    if not inflater.eof:
        raise unreachable(url, Interrupted("the page broke off before its end"))
    return b"".join(pieces)


def _too_long(where: str) -> UnexpectedStatus:
    return UnexpectedStatus(
        f"the page is longer than {PAGE_LIMIT} bytes", status=200, where=redact(where)
    )


def _lasting(headers: Mapping[str, str]) -> dict[str, str]:
    names = ("etag", "last-modified", "cache-control")
    return {name: headers[name] for name in names if name in headers}
