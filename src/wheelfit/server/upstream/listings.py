"""The ways in which an upstream lists its files: a page for each project, one page, or a rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
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


class Listing(Protocol):
    """The way in which an upstream lists the files of its projects."""

    @property
    def has_pages(self) -> bool:
        """Whether there are pages, so that the listed files exist."""

    def url(self, name: NormalizedName) -> str | None:
        """Return the URL of the page with the files of a project; None: there is no page."""

    def read(self, name: NormalizedName, answer: Answer, web: Web, source: str) -> ProjectPage:
        """Return the project on a page.

        :raises InvalidPage: it is no such page.
        """

    def of(self, name: NormalizedName, page: ProjectPage) -> ProjectPage | None:
        """Return the files of a project on a page; None if there are none."""

    def names(self, web: Web) -> Iterable[NormalizedName]:
        """Return the names of all projects.

        :raises NetworkError: the upstream cannot be read.
        """

    def inside(self, file: File) -> File:
        """Return a file as its own metadata names it."""


class _Usual:
    """A listing on pages of files whose names match their metadata."""

    has_pages = True

    def inside(self, file: File) -> File:
        """Return a file as its own metadata names it."""
        return file


@dataclass(frozen=True, slots=True)
class ProjectPages(_Usual):
    """An index with a page for each project."""

    base: str = field(repr=False)
    """Without a slash at the end."""

    def url(self, name: NormalizedName) -> str:
        """Return the URL of the page of a project."""
        return _page_url(self.base, name)

    def read(self, name: NormalizedName, answer: Answer, web: Web, source: str) -> ProjectPage:
        """Return the page of a project."""
        return ParsedPages(web.store).page(Copy.of(answer), name, source=source)

    def of(self, name: NormalizedName, page: ProjectPage) -> ProjectPage | None:  # noqa: ARG002
        """Return the page of a project."""
        return page

    def names(self, web: Web) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        return fetch_project_list(web.pages, self.base)


@dataclass(frozen=True, slots=True)
class OnePage(_Usual):
    """A page with links to the files of several projects."""

    page: str = field(repr=False)

    def url(self, name: NormalizedName) -> str:  # noqa: ARG002 - the same of all
        """Return the URL of the page."""
        return self.page

    def read(self, name: NormalizedName, answer: Answer, web: Web, source: str) -> ProjectPage:  # noqa: ARG002
        """Return the files that the page links to."""
        content_type = answer.headers.get("content-type", "")
        files, notes = parse_links(answer.body, content_type, answer.url, source=source)
        return ProjectPage(name, files, source, notes)

    def of(self, name: NormalizedName, page: ProjectPage) -> ProjectPage | None:
        """Return the files of a project that the page links to."""
        files = tuple(file for file in page.files if project_of(file.filename) == name)
        return structs.replace(page, name=name, files=files) if files else None

    def names(self, web: Web) -> Iterable[NormalizedName]:
        """Return the names of the projects with files on the page."""
        answer = web.pages.get(self.page, accept=ACCEPT)
        content_type = answer.headers.get("content-type", "")
        files, _ = parse_links(answer.body, content_type, answer.url, source=self.page)
        return dict.fromkeys(filter(None, (project_of(file.filename) for file in files)))


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Files that no page lists, whose names have a local version that their metadata has not."""

    urls: tuple[str, ...] = field(repr=False)

    @property
    def has_pages(self) -> bool:
        """Whether there are pages."""
        return False

    def url(self, name: NormalizedName) -> None:
        """Return None: there is no page."""

    def read(self, name: NormalizedName, answer: Answer, web: Web, source: str) -> ProjectPage:
        """Raise an error, for there is no page."""
        raise NotImplementedError

    def of(self, name: NormalizedName, page: ProjectPage) -> ProjectPage | None:
        """Return the files of a project."""
        files = (
            File(unquote(url.rpartition("/")[2]), url, source=page.source) for url in self.urls
        )
        own = tuple(file for file in files if project_of(file.filename) == name)
        return structs.replace(page, files=own) if own else None

    def names(self, web: Web) -> Iterable[NormalizedName]:  # noqa: ARG002 - nobody is asked
        """Return the names of all projects."""
        projects = (project_of(unquote(url.rpartition("/")[2])) for url in self.urls)
        return dict.fromkeys(filter(None, projects))

    def inside(self, file: File) -> File:
        """Return a file as its own metadata names it."""
        return structs.replace(file, filename=without_local(file.filename))


@lru_cache(4096)
def _page_url(index: str, name: NormalizedName) -> str:
    return f"{index}/{quote(name, safe='')}/"
