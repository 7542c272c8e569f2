"""The indexes of a vendor under one address, in the layout of the vendor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import structs
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.filename import project_of
from wheelfit.server.messages import not_acceptable, not_found, page_response, redirect_to
from wheelfit.server.pages import choose_type, write_project
from wheelfit.server.simple import SimpleIndex
from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.page import File, ProjectPage

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.server.messages import Request, Response
    from wheelfit.server.upstream.opening import MirroredFamily
    from wheelfit.sources.repository import Content, Index

_FILES = "files"
"""The folder of files in each index; no project of a family has this name."""
_FILES_SUFFIX = ".files/"
"""The suffix to the path of a page that makes the folder of its files."""


class FamilyIndexes:
    """The indexes of a family of distributions, each in its folder: an `Application`.

    The page of a project is at ``/{folder}/{project}/``, and its files are at
    ``/{folder}/files/{file}``, so that files with the same name in two folders stay apart. A page
    with links to all wheels has the same path as at the vendor, and its files are at
    ``/{page}.files/{file}``. Files that no page lists have the same path as at the vendor.

    :param mirrored: the family, and its mirrored projects; no others are served.
    """

    def __init__(
        self, mirrored: MirroredFamily, *, wrap: Callable[[Index], Index] = lambda index: index
    ) -> None:
        def wrapped(index: Index) -> Index:
            return wrap(_FamilyIndex(index, mirrored.family))

        self._folders = {
            folder: SimpleIndex(wrapped(index)) for folder, index in mirrored.folders.items()
        }
        self._pages = {
            page: _LinksPage(wrapped(index), page) for page, index in mirrored.pages.items()
        }
        self._files = dict.fromkeys(mirrored.files)
        unlisted = next(iter(mirrored.files.values()), None)
        self._unlisted_files = None if unlisted is None else SimpleIndex(wrapped(unlisted))

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        path = request.path.removeprefix("/")
        decoded = unquote(path)
        for page_path, page in self._pages.items():
            if decoded == page_path or decoded.startswith(f"{page_path}{_FILES_SUFFIX}"):
                return page(request, decoded.removeprefix(page_path))
        if self._unlisted_files is not None and decoded.removesuffix(".metadata") in self._files:
            name = path.rpartition("/")[2]
            return self._unlisted_files(replace(request, path=f"/{_FILES}/{name}"))
        for folder, index in self._folders.items():
            if path == folder:
                return redirect_to(f"{folder.rpartition('/')[2]}/")
            rest = path.removeprefix(f"{folder}/")
            if rest != path:
                is_file = rest.startswith(f"{_FILES}/") and rest != f"{_FILES}/"
                inner_path = f"/{rest}" if is_file else f"/simple/{rest}"
                return index(replace(request, path=inner_path))
        return not_found()


class _LinksPage:
    """A page with links to the files of all projects.

    :param path: the path of the page below the base.
    """

    def __init__(self, index: Index, path: str) -> None:
        self._index = index
        self._simple_index = SimpleIndex(index)
        self._files = f"{quote(path.rpartition('/')[2])}{_FILES_SUFFIX}"

    def __call__(self, request: Request, rest: str) -> Response:
        """Answer a request for the page, or for a file beside it.

        :param rest: the part of the path after that of the page.
        """
        if rest:
            name = quote(rest.removeprefix(_FILES_SUFFIX), safe="")
            return self._simple_index(replace(request, path=f"/{_FILES}/{name}"))
        media_type = choose_type(request.headers.get("accept"))
        if media_type is None:
            return not_acceptable()
        pages = [self._index.project(name) for name in self._index.projects()]
        files = tuple(
            structs.replace(
                file,
                url=f"{self._files}{file.url.removeprefix(f'../{_FILES}/')}",
                provenance=None,
            )
            for page in pages
            if page is not None
            for file in page.files
        )
        whole = ProjectPage(canonicalize_name(self._index.name), files, self._index.name)
        content = write_project(whole, media_type)
        return page_response(request, media_type, content, {"vary": "Accept"})


class _FamilyIndex(ContentFiles):
    """An `Index` of the projects of a family, with files beside the pages.

    :param family: the family; other projects are hidden.
    """

    def __init__(self, index: Index, family: BridgeFamily) -> None:
        self.name = index.name
        self._index = index
        self._family = family

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of the projects of the family that have a page."""
        return [name for name in self._index.projects() if self._family.has_project(name)]

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        page = self._index.project(name) if self._family.has_project(name) else None
        return page and structs.replace(page, files=tuple(map(_with_links_beside, page.files)))

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a stamp that changes with the page."""
        return self._index.stamp(name) if self._family.has_project(name) else None

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a file."""
        base = filename.removesuffix(".metadata").removesuffix(".provenance")
        name = project_of(base)
        is_known = name is not None and self._family.has_project(name)
        return self._index.content(filename) if is_known else None


def _with_links_beside(file: File) -> File:
    """Return a file whose relative links go up one folder less than usual."""
    provenance = file.provenance and file.provenance.removeprefix("../")
    return structs.replace(file, url=file.url.removeprefix("../"), provenance=provenance)
