"""Where a page stands, and the relative links that lead from there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from wheelfit.server.site.facts import is_web_address
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from wheelfit.sources.page import File


_SIMPLE_PAGE = "../../"
"""URLs of an index begin so: they are relative to the page of the project."""
_BESIDE_PAGE = pattern(r"(?:[\w%+-][\w.%+-]*/)*[\w%+-][\w.%+-]*", re.ASCII)
"""Others are of files in the folder of the page."""


@dataclass(frozen=True, slots=True)
class Place:
    """Say where a page stands, and what it may point to."""

    depth: int
    """Folders above it, as far as the site reaches."""
    is_static: bool = False
    """Whether nobody answers forms."""

    @property
    def root(self) -> str:
        """What leads from here to the front page."""
        return "../" * self.depth or "./"

    def file(self, file: File, project: str) -> str:
        """Return the link to a file of the index; empty: there is none to follow."""
        return self._url(file.url, project)

    def provenance(self, file: File, project: str) -> str:
        """Return the link to what was attested; empty: nothing was."""
        return "" if file.provenance is None else self._url(file.provenance, project)

    def _url(self, url: str, project: str) -> str:
        if url.startswith(_SIMPLE_PAGE):
            return self.root + url.removeprefix(_SIMPLE_PAGE)
        if _BESIDE_PAGE.fullmatch(url):
            return f"{self.root}simple/{segment(project)}/{url}"
        return url if is_web_address(url) else ""


def segment(text: str) -> str:
    """Write a text as one segment of a path."""
    return quote(text, safe="", errors="replace")
