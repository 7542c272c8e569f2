"""An index in which families of distributions have variants (`wheelfit.sources.bridges`)."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.server.proxy.upstream import Upstream
from wheelfit.sources.bridges.bridged import Bridged
from wheelfit.sources.page import BRIDGE

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

    from wheelfit.server.proxy.upstream import RawPage
    from wheelfit.sources.bridges.shelf import Shelf
    from wheelfit.sources.open import Web
    from wheelfit.sources.page import ProjectPage


class BridgedUpstream(Upstream):
    """An index in which the pages of families have their members.

    Families of indexes are left alone: their members are in other places than this.
    """

    def __init__(self, url: str, web: Web, shelf: Shelf) -> None:
        super().__init__(url, web)
        self._shelf = shelf
        self._plain = Upstream(url, web)
        self._bridged = Bridged(self._plain, shelf)
        self._files = self._bridged

    def wants_login(self, url: str) -> bool:
        """Return whether clients cannot fetch a URL themselves."""
        return url.startswith(BRIDGE) or super().wants_login(url)

    def raw(self, name: NormalizedName, *, html: bool = False) -> RawPage | None:
        """Return the page of a project; of a family one that says that it has variants."""
        own = self._plain.raw(name, html=html)
        family = self._shelf.of(name)
        if family is None or family.is_of_indexes:
            return own
        page = self._bridged.project(name)
        if page is None or page.bridge is None:
            return own
        # It is another page whenever that of a member is.
        names = tuple(dict.fromkeys((name, *family.distributions)))
        found = [raw for raw in map(self._plain.raw, names) if raw is not None]
        digest = hashlib.sha256("\n".join(raw.digest for raw in found).encode()).hexdigest()
        return replace(own or found[0], digest=digest, has_variants=True)

    def parsed(self, name: NormalizedName, page: RawPage) -> ProjectPage:
        """Return what a page says."""
        if self._shelf.of(name) is not None:
            found = self._bridged.project(name)
            if found is not None and found.bridge is not None:
                return found
        return self._plain.parsed(name, page)
