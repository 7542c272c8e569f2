"""An index behind the proxy, and its pages as received.

Most projects have no variants. Their pages are not parsed, only searched for the name of a
``-variants.json``; they are cached compressed and forwarded. Relative links are made absolute: by a
``<base>`` in HTML, and by complete URLs in JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from html import escape, unescape
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import structs

from wheelfit.server.backing_services import upstream_dependency
from wheelfit.server.offering import OfferRules
from wheelfit.server.pages import JSON
from wheelfit.server.proxy.choosing import fingerprint
from wheelfit.sources.body import decompressed
from wheelfit.sources.bridges.repository import BridgedRepository, OpenIndex
from wheelfit.sources.cached_pages import Copy, SharedPages
from wheelfit.sources.client import PAGE_LIMIT, Answer, unreachable
from wheelfit.sources.cooldown import Cooldown
from wheelfit.sources.file_readers import DelegatedFiles
from wheelfit.sources.find_links import FileIndex
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.page import ACCEPT, BRIDGE, VARIANTS_SUFFIX, ProjectPage
from wheelfit.sources.parsed_pages import ParsedPages
from wheelfit.sources.project_list import parse_project_list
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import file_url, join, redact, split_userinfo
from wheelfit_runtime.errors import InvalidPage
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.bridges.catalogue import BridgeCatalogue
    from wheelfit.sources.open import Web


_ACCEPT_HTML = "application/vnd.pypi.simple.v1+html, text/html; q=0.9"
_VARIANTS_MARK = VARIANTS_SUFFIX.encode()
_QUARANTINED = b"quarantined"
_UNCOMPRESSED = frozenset({"", "identity"})
_MAX_IN_MEMORY = 64 << 20
"""Bytes of pages; all of them are on disk too."""
_MAX_THREADS = 24
"""Threads that may use one index at once, of the 64 of a server."""


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page as it may be served."""

    body: bytes
    """The page, compressed by `encoding`."""
    encoding: str
    """``gzip``, or empty."""
    content_type: str
    url: str
    """Its URL after redirects, without credentials."""
    digest: str
    """SHA-256 of the page, decompressed."""
    has_variants: bool
    """Whether some release has variants."""
    needs_rewriting: bool = False
    """Whether it cannot be forwarded as received: files are left out, or may be (PEP 792)."""

    @property
    def plain(self) -> bytes:
        """The page, decompressed."""
        return _plain(self.body, self.url) if self.encoding else self.body


class Upstream(DelegatedFiles):
    """An index: a `Repository` whose pages can also be read as received.

    :param note: called with a message if the index has no times of upload.
    """

    def __init__(
        self,
        url: str,
        web: Web,
        *,
        rules: OfferRules = OfferRules(),
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        super().__init__(web.files)
        self.url = split_userinfo(url)[0].rstrip("/")
        """Without credentials and final slash."""
        self.name = redact(url)
        self.web = web
        self._rules = rules
        self._note = note
        self._pages: SharedPages[RawPage] = SharedPages(
            structs.replace(web.pages, packed=True),
            MemoryCache(_MAX_IN_MEMORY, lambda entry: len(entry[1].body) + 1024),
            fetching=upstream_dependency(self.url, _MAX_THREADS).use,
        )
        self._parsed: MemoryCache[ProjectPage] = MemoryCache(64, lambda _page: 1)

    @property
    def has_login(self) -> bool:
        """Whether requests to it have a login."""
        return bool(self.web.client.user_at(f"{self.url}/"))

    def needs_proxy(self, url: str) -> bool:
        """Return whether clients cannot fetch a URL themselves, because it needs a login."""
        return bool(self.web.client.user_at(url))

    def raw_page(self, name: NormalizedName, *, html: bool = False) -> RawPage | None:
        """Return the page of a project, or None if the index does not have it.

        :param html: whether only HTML is accepted.
        """
        page = self._fetch_page(f"{self.url}/{quote(name, safe='')}/", html=html)
        if page is None or not self._rules.may_withhold(name):
            return page
        # The digest changes with the offered files.
        names = " ".join(file.filename for file in self.parsed_page(name, page).files)
        digest = hashlib.sha256(f"{page.digest} {names}".encode()).hexdigest()
        return replace(page, digest=digest, needs_rewriting=True)

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects, sorted; none if the index does not list them."""
        page = self._fetch_page(f"{self.url}/", html=False)
        if page is None:
            return ()
        return parse_project_list(page.plain, page.content_type, where=self.name)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if the index does not have it."""
        page = self.raw_page(name)
        return None if page is None else self.parsed_page(name, page)

    def parsed_page(self, name: NormalizedName, page: RawPage) -> ProjectPage:
        """Return a page, parsed."""

        def parse() -> ProjectPage:
            copy = Copy(page.plain, page.url, {"content-type": page.content_type}, 0.0)
            return ParsedPages(self.web.store).page(copy, name, source=self.name)

        parsed = self._parsed.get((name, page.digest), parse)
        return self._rules.filter_page(parsed, self._note)

    def _fetch_page(self, url: str, *, html: bool) -> RawPage | None:
        copy_and_page = self._pages.get(url, _ACCEPT_HTML if html else ACCEPT, _page_of_answer)
        return None if copy_and_page is None else copy_and_page[1]


def _page_of_answer(answer: Answer) -> RawPage:
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    content_type = answer.headers.get("content-type", "")
    plain = _plain(answer.body, answer.url) if encoding not in _UNCOMPRESSED else answer.body
    try:
        absolute = with_absolute_links(plain, content_type, answer.url)
    except ValueError:
        raise InvalidPage("the page cannot be understood", where=redact(answer.url)) from None
    is_packed = absolute is plain and "gzip" in encoding
    return RawPage(
        answer.body if is_packed else absolute,
        "gzip" if is_packed else "",
        content_type,
        answer.url,
        hashlib.sha256(absolute).hexdigest(),
        _VARIANTS_MARK in plain,
        _QUARANTINED in plain,
    )


def _plain(body: bytes, url: str) -> bytes:
    """Return a page, decompressed."""
    try:
        return decompressed((body,), PAGE_LIMIT, where=redact(url))
    except Interrupted as interrupted:
        raise unreachable(url, interrupted) from None


_RELATIVE_HREF = pattern(
    rb"""href\s*=\s*(?:"\s*(?!https?://)|'\s*(?!https?://)|(?!["']|https?://))""", re.IGNORECASE
)
_RELATIVE_URL = pattern(rb'"(?:url|provenance)"\s*:\s*"(?!https?://)')
_BASE = pattern(rb"<base\b[^>]*>", re.IGNORECASE)
_BASE_HREF = pattern(rb"""href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+))""", re.IGNORECASE)
_FIRST_LINK = pattern(rb"<a\b", re.IGNORECASE)
_HEAD = pattern(rb"<head\b[^>]*>", re.IGNORECASE)
_DOCTYPE = pattern(rb"\s*<!doctype[^>]*>", re.IGNORECASE)


def with_absolute_links(body: bytes, content_type: str, url: str) -> bytes:
    """Return a page whose relative links work from any URL.

    :param body: the page, decompressed.
    :param url: its URL after redirects, without credentials.
    :raises ValueError: it is not JSON of the Simple API despite its type.
    """
    if "json" in content_type:
        return _absolute_json(body, url) if _RELATIVE_URL.search(body) else body
    return _absolute_html(body, url) if _RELATIVE_HREF.search(body) else body


def _absolute_json(body: bytes, url: str) -> bytes:
    page = json.loads(body)
    files = page.get("files") if isinstance(page, dict) else None
    if not isinstance(files, list):
        raise ValueError("a page without files")  # noqa: TRY004 - of its content
    for file in files:
        for key in ("url", "provenance"):
            if isinstance(file, dict) and isinstance(file.get(key), str):
                file[key] = join(url, file[key])
    return json.dumps(page, separators=(",", ":"), ensure_ascii=False).encode()


def _absolute_html(body: bytes, url: str) -> bytes:
    first_link = _FIRST_LINK.search(body)
    links_start = first_link.start() if first_link else len(body)
    base = _BASE.search(body, 0, links_start)
    if base is not None:
        href = _BASE_HREF.search(base[0])
        value = b"" if href is None else next(filter(None, href.groups()), b"")
        url = join(url, unescape(value.decode("utf-8", "replace")))
        return body[: base.start()] + _base_tag(url) + body[base.end() :]
    before = _HEAD.search(body, 0, links_start) or _DOCTYPE.match(body)
    stop = before.end() if before else 0
    return body[:stop] + _base_tag(url) + body[stop:]


def _base_tag(url: str) -> bytes:
    return f'<base href="{escape(url)}">'.encode()


def _digest_of_files(page: ProjectPage) -> str:
    """Return a digest that changes with an entry of a page, and with a local file."""
    entries = [(file, fingerprint(file)) for file in page.files]
    return hashlib.sha256(repr(entries).encode()).hexdigest()


class FolderUpstream(Upstream):
    """A folder that is laid out like an index."""

    def __init__(self, path: Path, web: Web, rules: OfferRules) -> None:
        # Local files have no upload times, and belong to the operator.
        super().__init__(file_url(path.absolute()), web, rules=replace(rules, cooldown=Cooldown()))
        self._index = FileIndex(path.absolute(), web.files)

    @property
    def has_login(self) -> bool:
        """Whether requests to it have a login: there are none."""
        return False

    def needs_proxy(self, url: str) -> bool:
        """Return whether clients cannot fetch a URL themselves."""
        return url.startswith("file:") or super().needs_proxy(url)

    def raw_page(self, name: NormalizedName, *, html: bool = False) -> RawPage | None:  # noqa: ARG002
        """Return the page of a project, or None if it has no folder."""
        page = self._listed(name)
        if page is None:
            return None
        has_variants = any(file.filename.endswith(VARIANTS_SUFFIX) for file in page.files)
        # This is never forwarded, as its files need the proxy; only the digest matters.
        return RawPage(b"", "", JSON, self.url, _digest_of_files(page), has_variants)

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects, sorted."""
        return self._index.projects()

    def parsed_page(self, name: NormalizedName, page: RawPage) -> ProjectPage:
        """Return a page, parsed."""
        listed = self._listed(name)
        return listed if listed is not None else super().parsed_page(name, page)

    def _listed(self, name: NormalizedName) -> ProjectPage | None:
        page = self._index.project(name)
        if page is None:
            return None
        # Names of files on a disk may be invalid Unicode, which no page can contain.
        files = tuple(file for file in page.files if file.filename.isprintable())
        return self._rules.filter_page(structs.replace(page, files=files))


class BridgedUpstream(Upstream):
    """An index in which the page of a family has the files of its members.

    :param open_index: opens the indexes of families; None: they are not used.
    """

    def __init__(
        self, plain: Upstream, catalogue: BridgeCatalogue, open_index: OpenIndex | None = None
    ) -> None:
        super().__init__(plain.url, plain.web)
        self.name = plain.name
        self._catalogue = catalogue
        self._plain = plain
        self._has_indexes = open_index is not None
        self._bridged = BridgedRepository(self._plain, catalogue, open_index)
        self._files = self._bridged

    def needs_proxy(self, url: str) -> bool:
        """Return whether clients cannot fetch a URL themselves."""
        return url.startswith(BRIDGE) or super().needs_proxy(url)

    def raw_page(self, name: NormalizedName, *, html: bool = False) -> RawPage | None:
        """Return the page of a project; that of a family has variants."""
        plain_page = self._plain.raw_page(name, html=html)
        family = self._catalogue.of(name)
        if family is None or (family.is_of_indexes and not self._has_indexes):
            return plain_page
        page = self._bridged.project(name)
        if page is None or page.bridge is None:
            return plain_page
        if family.is_of_indexes:
            digest = _digest_of_files(page)
            if plain_page is None:  # a page with variants is rewritten, never forwarded
                return RawPage(b"", "", JSON, f"{self.url}/{name}/", digest, has_variants=True)
            return replace(plain_page, digest=digest, has_variants=True)
        # The digest changes with the pages of the members.
        names = tuple(dict.fromkeys((name, *family.distributions)))
        pages = [raw for raw in map(self._plain.raw_page, names) if raw is not None]
        digest = hashlib.sha256("\n".join(raw.digest for raw in pages).encode()).hexdigest()
        return replace(plain_page or pages[0], digest=digest, has_variants=True)

    def parsed_page(self, name: NormalizedName, page: RawPage) -> ProjectPage:
        """Return a page, parsed."""
        if self._catalogue.of(name) is not None:
            bridged = self._bridged.project(name)
            if bridged is not None and bridged.bridge is not None:
                return bridged
        return self._plain.parsed_page(name, page)
