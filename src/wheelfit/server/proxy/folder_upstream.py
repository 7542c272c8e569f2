"""An index that is a folder of this machine, with the proxy in front of it.

Clients cannot follow its links, so its files pass through the proxy.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from wheelfit.server.pages import JSON
from wheelfit.server.proxy.upstream import RawPage, Upstream
from wheelfit.sources.directory import FileIndex
from wheelfit.sources.page import VARIANTS_SUFFIX
from wheelfit.sources.urls import file_url

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.open import Web
    from wheelfit.sources.page import ProjectPage


class FolderUpstream(Upstream):
    """Give the pages and files of a folder that is laid out like an index."""

    def __init__(self, path: Path, web: Web) -> None:
        super().__init__(file_url(path.absolute()), web)
        self._index = FileIndex(path.absolute(), web.files)

    @property
    def has_login(self) -> bool:
        """Whether it is asked with a login: a folder is asked nothing."""
        return False

    def wants_login(self, url: str) -> bool:
        """Tell whether clients cannot fetch a URL themselves."""
        return url.startswith("file:") or super().wants_login(url)

    def raw(self, name: NormalizedName, *, html: bool = False) -> RawPage | None:  # noqa: ARG002
        """Return the page of a project, or None if it has no folder."""
        page = self._index.project(name)
        if page is None:
            return None
        told = [(file.filename, file.url, sorted(file.hashes.items())) for file in page.files]
        body = json.dumps(told).encode()
        has_variants = any(file.filename.endswith(VARIANTS_SUFFIX) for file in page.files)
        digest = hashlib.sha256(body).hexdigest()
        return RawPage(body, "", JSON, self.url, digest, has_variants)

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects, sorted."""
        return self._index.projects()

    def parsed(self, name: NormalizedName, page: RawPage) -> ProjectPage:
        """Return what a page says."""
        found = self._index.project(name)
        return found if found is not None else super().parsed(name, page)
