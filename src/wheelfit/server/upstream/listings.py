"""The ways in which an upstream lists files: a page for each project, one page, or no page."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote

from msgspec import structs

from wheelfit.core.filename import project_of
from wheelfit.sources.bridges.pages import without_local
from wheelfit.sources.cached_pages import Copy
from wheelfit.sources.page import ACCEPT, File, ProjectPage
from wheelfit.sources.parsed_pages import ParsedPages
from wheelfit.sources.project_list import fetch_project_list
from wheelfit.sources.simple_api import parse_links

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.utils import NormalizedName

    from wheelfit.sources.client import Answer
    from wheelfit.sources.open import Web


class MirrorListing:
    """A way in which an upstream lists the files of its projects; by default, on pages."""

    has_pages: ClassVar[bool] = True
    """Whether there are pages; otherwise listed files need not exist."""

    def url(self, name: NormalizedName) -> str | None:
        """Return the URL of the page with the files of a project; None without pages."""
        raise NotImplementedError

    def read(self, name: NormalizedName, answer: Answer, web: Web, source: str) -> ProjectPage:
        """Return the content of a page, possibly with files of other projects.

        :raises InvalidPage: it is not a page of links.
        """
        raise NotImplementedError

    def select(self, name: NormalizedName, page: ProjectPage) -> ProjectPage | None:  # noqa: ARG002
        """Return a page with the files of one project; None if there are none."""
        return page

    def names(self, web: Web) -> Iterable[NormalizedName]:
        """Return the names of all projects.

        :raises NetworkError: the upstream cannot be read.
        """
        raise NotImplementedError

    def with_metadata_version(self, file: File) -> File:
        """Return a file, renamed to the version in its METADATA."""
        return file


@dataclass(frozen=True, slots=True)
class ProjectPages(MirrorListing):
    """An index with a page for each project."""

    base: str = field(repr=False)
    """URL of the simple API, without a final slash."""

    def url(self, name: NormalizedName) -> str:
        """Return the URL of the page of a project."""
        return _page_url(self.base, name)

    def read(self, name: NormalizedName, answer: Answer, web: Web, source: str) -> ProjectPage:
        """Return the page of a project."""
        return ParsedPages(web.store).page(Copy.of(answer), name, source=source)

    def names(self, web: Web) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        return fetch_project_list(web.pages, self.base)


@dataclass(frozen=True, slots=True)
class LinksPage(MirrorListing):
    """A page with links to the files of several projects."""

    page: str = field(repr=False)

    def url(self, name: NormalizedName) -> str:  # noqa: ARG002 - one page for all
        """Return the URL of the page."""
        return self.page

    def read(self, name: NormalizedName, answer: Answer, web: Web, source: str) -> ProjectPage:  # noqa: ARG002
        """Return the files that the page links to."""
        content_type = answer.headers.get("content-type", "")
        files, notes = parse_links(answer.body, content_type, answer.url, source=source)
        return ProjectPage(name, files, source, notes)

    def select(self, name: NormalizedName, page: ProjectPage) -> ProjectPage | None:
        """Return the page with the files of one project; None if there are none."""
        files = tuple(file for file in page.files if project_of(file.filename) == name)
        return structs.replace(page, name=name, files=files) if files else None

    def names(self, web: Web) -> Iterable[NormalizedName]:
        """Return the names of the projects with files on the page."""
        answer = web.pages.get(self.page, accept=ACCEPT)
        content_type = answer.headers.get("content-type", "")
        files, _ = parse_links(answer.body, content_type, answer.url, source=self.page)
        return dict.fromkeys(filter(None, (project_of(file.filename) for file in files)))


@dataclass(frozen=True, slots=True)
class UnlistedFiles(MirrorListing):
    """Files that no page lists, with a local version that is only in their names."""

    urls: tuple[str, ...] = field(repr=False)
    has_pages = False

    def url(self, name: NormalizedName) -> None:
        """Return None, since there are no pages."""

    def select(self, name: NormalizedName, page: ProjectPage) -> ProjectPage | None:
        """Return a page with the files of a project; None if there are none."""
        files = tuple(
            File(_filename(url), url, source=page.source)
            for url in self.urls
            if project_of(_filename(url)) == name
        )
        return structs.replace(page, files=files) if files else None

    def names(self, web: Web) -> Iterable[NormalizedName]:  # noqa: ARG002 - no request is needed
        """Return the names of all projects."""
        projects = (project_of(_filename(url)) for url in self.urls)
        return dict.fromkeys(filter(None, projects))

    def with_metadata_version(self, file: File) -> File:
        """Return a file without the local version in its name."""
        return structs.replace(file, filename=without_local(file.filename))


def _filename(url: str) -> str:
    return unquote(url.rpartition("/")[2])


@lru_cache(4096)
def _page_url(index: str, name: NormalizedName) -> str:
    return f"{index}/{quote(name, safe='')}/"
