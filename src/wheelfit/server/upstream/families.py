"""The indexes of a vendor under one address, as the vendor lays them out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as replace_file

from wheelfit.core.filename import project_of
from wheelfit.server.messages import missing, moved
from wheelfit.server.simple import SimpleIndex
from wheelfit.sources.file_readers import ReadsContent

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.server.messages import Answer, Request
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Content, Elsewhere, Index

_FILES = "files"
"""The folder of files in each index; no project of a family is called so."""


class FamilyIndexes:
    """The indexes of a family of distributions, each in its folder: an `Application`.

    Pages are at ``/{folder}/{project}/`` and files at ``/{folder}/files/{file}``, so that files
    of one name in two of them stay two.

    :param family: whose projects are served, and no other ones.
    :param indexes: what there is in each folder.
    :param around: makes of an index what clients see of it.
    """

    def __init__(
        self,
        family: BridgeFamily,
        indexes: Mapping[str, Index],
        *,
        around: Callable[[Index], Index] = lambda index: index,
    ) -> None:
        self._folders = {
            folder: SimpleIndex(around(_OfFamily(index, family)))
            for folder, index in indexes.items()
        }

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        path = request.path.removeprefix("/")
        for folder, answers in self._folders.items():
            if path == folder:
                return moved(f"{folder.rpartition('/')[2]}/")
            rest = path.removeprefix(f"{folder}/")
            if rest != path:
                is_file = rest.startswith(f"{_FILES}/") and rest != f"{_FILES}/"
                below = f"/{rest}" if is_file else f"/simple/{rest}"
                return answers(replace(request, path=below))
        return missing()


class _OfFamily(ReadsContent):
    """An `Index` of the projects of a family, with files beside the pages.

    :param index: what has them.
    :param family: whose projects are shown.
    """

    def __init__(self, index: Index, family: BridgeFamily) -> None:
        self.name = index.name
        self._index = index
        self._family = family

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of the projects of the family, as far as there are pages."""
        return [name for name in self._index.projects() if self._family.stands_for(name)]

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        page = self._index.project(name) if self._family.stands_for(name) else None
        return page and replace(page, files=tuple(map(_beside, page.files)))

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a stamp that changes with the page."""
        return self._index.stamp(name) if self._family.stands_for(name) else None

    def content(self, filename: str) -> Content | Elsewhere | None:
        """Return the bytes of a file."""
        bare = filename.removesuffix(".metadata").removesuffix(".provenance")
        name = project_of(bare)
        is_known = name is not None and self._family.stands_for(name)
        return self._index.content(filename) if is_known else None


def _beside(file: File) -> File:
    """Return a file whose links lead one folder less up than those of other indexes."""
    provenance = file.provenance and file.provenance.removeprefix("../")
    return replace_file(file, url=file.url.removeprefix("../"), provenance=provenance)
