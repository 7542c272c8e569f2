"""The address of a page, its links to other pages, and the parts of long lists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from wheelfit.server.site.facts import is_web_address
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.sources.page import File


_SIMPLE_PAGE = "../../"
"""Prefix of URLs of an index, relative to the page of the project."""
_BESIDE_PAGE = pattern(r"(?:[\w%+-][\w.%+-]*/)*[\w%+-][\w.%+-]*", re.ASCII)
"""URLs of files in the folder of the page."""


@dataclass(frozen=True, slots=True)
class PageAddress:
    """The address of a page."""

    depth: int
    """Folders above it, up to the front page."""
    is_static: bool = False
    """Whether the page is a file, which has no forms."""

    @property
    def root(self) -> str:
        """The relative URL of the front page."""
        return "../" * self.depth or "./"

    def file(self, file: File, project: str) -> str:
        """Return the link to a file of the index; empty: its URL is not safe to follow."""
        return self._url(file.url, project)

    def provenance(self, file: File, project: str) -> str:
        """Return the link to the provenance of a file; empty: there is none."""
        return "" if file.provenance is None else self._url(file.provenance, project)

    def _url(self, url: str, project: str) -> str:
        if url.startswith(_SIMPLE_PAGE):
            return self.root + url.removeprefix(_SIMPLE_PAGE)
        if _BESIDE_PAGE.fullmatch(url):
            return f"{self.root}simple/{segment(project)}/{url}"
        return url if is_web_address(url) else ""


def segment(text: str) -> str:
    """Return a text as one segment of a path, percent-encoded."""
    return quote(text, safe="", errors="replace")


class ListPart(NamedTuple):
    """The part of a long list that one page shows."""

    items: Sequence[Any]
    number: int
    """Of this page, from 1."""
    pages: int
    total: int
    first: int
    """Number of the first item, from 1."""

    @property
    def last(self) -> int:
        """Number of the last item."""
        return self.first + len(self.items) - 1


def part_of(
    items: Sequence[Any], query: Mapping[str, str], size: int, field: str = "page"
) -> ListPart:
    """Return the page of a list that a query requests, or the nearest one."""
    text = query.get(field, "")
    pages = max(1, -(-len(items) // size))
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 1
    number = min(max(number, 1), pages)
    start = (number - 1) * size
    return ListPart(items[start : start + size], number, pages, len(items), start + 1)


def page_query(
    fields: Mapping[str, str], current: Mapping[str, str] = MappingProxyType({})
) -> Callable[[int, str], str]:
    """Return a function that makes the query of another page of a list; other lists keep theirs."""
    other_parts = {name: current[name] for name in ("page", "files") if name in current}

    def query(number: int, field: str = "page") -> str:
        return "?" + urlencode({**fields, **other_parts, field: str(number)})

    return query
