"""An index whose pages say where else their projects are, as the operator declares (PEP 708)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.sources.reading import ReadsContent

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import OtherPages, ProjectPage
    from wheelfit.sources.repository import Content, Elsewhere, Index


class Declared(ReadsContent):
    """Have what another index has: an `Index`.

    :param elsewhere: by project what its page says, whatever the other index says of it.
    """

    def __init__(self, index: Index, elsewhere: Mapping[NormalizedName, OtherPages]) -> None:
        self._index = index
        self.name = index.name
        self._elsewhere = elsewhere

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects, sorted."""
        return self._index.projects()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        page = self._index.project(name)
        declared = self._elsewhere.get(name)
        return page if page is None or declared is None else replace(page, elsewhere=declared)

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return what stays equal as long as the page does: what is declared never changes."""
        return self._index.stamp(name)

    def content(self, filename: str) -> Content | Elsewhere | None:
        """Return the bytes of a file."""
        return self._index.content(filename)
