"""An index over HTTP: one page per project (PEP 503, PEP 691)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from wheelfit.sources.cached_pages import CachedPages, Copy
from wheelfit.sources.client import unexpected
from wheelfit.sources.file_readers import DelegatedFiles
from wheelfit.sources.page import ACCEPT, ProjectPage
from wheelfit.sources.urls import is_below, redact, split_userinfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from packaging.utils import NormalizedName

    from wheelfit.sources.repository import Files


class HttpIndex(DelegatedFiles):
    """An index over HTTP.

    :param url: the URL of the index, usually ending with ``/simple/``; credentials in it are
        removed (``Credentials`` has them).
    :param requires_pages_below_url: whether a page counts only if it is below the URL of the index,
        also after a redirect.
    """

    def __init__(
        self,
        url: str,
        pages: CachedPages,
        files: Files,
        *,
        requires_pages_below_url: bool = False,
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        super().__init__(files)
        self._url = split_userinfo(url)[0].rstrip("/")
        self._pages = pages
        self._requires_pages_below_url = requires_pages_below_url
        self._note = note
        self.name = redact(url)

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects that the index lists."""
        from wheelfit.sources.project_list import fetch_project_list

        return fetch_project_list(self._pages, self._url)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if the index does not know it."""
        url = self._page_url(name)
        answer = self._pages.current(url, ACCEPT)
        if self._requires_pages_below_url and not is_below(answer.url, self._url):
            self._note(
                f"{self.name} redirects {name} to {redact(answer.url)}, so {name} counts as missing"
            )
            return None
        if isinstance(answer, Copy):
            from wheelfit.sources.parsed_pages import ParsedPages

            with_body = partial(self._pages.with_body, url, ACCEPT)
            parsed = ParsedPages(self._pages.store)
            return parsed.page(answer, name, source=self.name, with_body=with_body)
        if not self._pages.is_missing(answer, url):
            raise unexpected(answer.status, answer.url)
        if answer.status == 403:
            self._note(f"{self.name} answered 403 for {name}, so {name} counts as missing")
        return None

    def stamp(self, name: NormalizedName) -> str | None:
        """Return the stamp of a project's page; None: the page must be read."""
        answer = self._pages.current(self._page_url(name), ACCEPT)
        if not isinstance(answer, Copy):
            return None
        from wheelfit.sources.parsed_pages import stamp_of_copy

        return stamp_of_copy(answer)

    def _page_url(self, name: NormalizedName) -> str:
        return f"{self._url}/{quote(name, safe='')}/"
