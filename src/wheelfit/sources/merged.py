"""Several repositories as one pool of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec.structs import replace

from wheelfit.core.filename import wheel_filename_of
from wheelfit.sources.file_readers import DelegatedFiles
from wheelfit.sources.page import ACTIVE, File, ProjectPage
from wheelfit.sources.repository import Files, Repository, stamp_of
from wheelfit_runtime.errors import NetworkError, ProjectNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version


IndexStrategy: TypeAlias = Literal["first-index", "unsafe-first-match", "unsafe-best-match"]
"""Which indexes supply a project, in uv's words."""


class Pool(DelegatedFiles):
    """A ``Repository`` of indexes, and of the user's further sources.

    Under the strategy ``first-index`` one page never has files of two indexes (F-126): equal labels
    may have different meanings there, and a public project with the name of a private one and a
    higher version is never chosen. Under the other strategies the versions of all indexes compete
    (F-127). The user's further sources always compete.

    If a server cannot be read, no later server is read instead, which could otherwise supply
    packages during an outage. Files on this machine may substitute for it.

    :param indexes: the most important index first.
    :param links: the sources of ``--find-links``; their files replace index files of the same name.
    :param pins: for pinned projects, the only indexes to read. Of ``links`` only those on this
        machine count for them.
    :param markers: for projects whose pins have markers, pairs of an index's name and a marker.
    :param local: names of the repositories that need no network.
    :param others: reads files that no repository listed, such as a wheel that the user named; None:
        the first repository reads them.
    :param note: called when files on this machine substitute for a server.
    """

    def __init__(
        self,
        indexes: Iterable[Repository],
        *,
        links: Iterable[Repository] = (),
        pins: Mapping[NormalizedName, Sequence[Repository]] | None = None,
        markers: Mapping[NormalizedName, Sequence[tuple[str, str]]] | None = None,
        strategy: IndexStrategy = "first-index",
        local: Iterable[str] = (),
        others: Files | None = None,
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._indexes = tuple(indexes)
        self._links = tuple(links)
        self._pins = dict(pins or {})
        self._markers = dict(markers or {})
        self._strategy = strategy
        self._local = frozenset(local)
        self._others = others
        self._note = note
        self._repositories = (*self._links, *self._indexes)
        self._looked_up: dict[NormalizedName, None] = {}
        self._suppliers: dict[NormalizedName, int] = {}  # the position of the index, unless pinned
        self._by_name = {
            repository.name: repository for pinned in self._pins.values() for repository in pinned
        }
        self._by_name |= {repository.name: repository for repository in self._repositories}
        self.name = ", ".join(repository.name for repository in self._repositories) or "no source"

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects of all repositories."""
        names = {name for repository in self._repositories for name in repository.projects()}
        return tuple(sorted(names))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the files of a project of every repository that may supply it."""
        self._looked_up[name] = None
        indexes, links = self._sources_for(name)
        linked = _pages(links, name)
        if (markers := self._markers.get(name)) is not None:
            return self._marked(name, linked, indexes, markers)
        if self._strategy == "first-index" or name in self._pins:
            supplied = self._first(indexes, name, linked)
        else:
            supplied = _pages(indexes, name)
        ranks_indexes = self._strategy == "unsafe-first-match"
        order = tuple(index.name for index in indexes) if ranks_indexes else ()
        page = _joined(name, [*linked, *supplied], order)
        if page is None or not page.fresh_seconds:
            return page
        only = self.only_index(name)
        is_of_one_index = only is not None and only.name == page.source
        return page if is_of_one_index else replace(page, fresh_seconds=0.0)

    def _marked(
        self,
        name: NormalizedName,
        linked: list[ProjectPage],
        pinned: Sequence[Repository],
        markers: Sequence[tuple[str, str]],
    ) -> ProjectPage | None:
        """Return the files of a project that is pinned for some environments only."""
        supplied = _pages(pinned, name)
        rules: list[tuple[str, str | None]] = list(markers)
        if all(text for _, text in markers):
            other_indexes = tuple(index for index in self._indexes if index not in pinned)
            if self._strategy == "first-index":
                other_pages = self._first(other_indexes, name, linked)
            else:
                other_pages = _pages(other_indexes, name)
            supplied += other_pages
            rules += ((page.source, None) for page in other_pages)
        return _joined(name, [*linked, *supplied], markers=rules)

    def stamp(self, name: NormalizedName) -> str:
        """Return the stamp of a project's page; empty: the page must be read.

        Only a project supplied by the first index alone has one.
        """
        only = self.only_index(name)
        return "" if only is None else stamp_of(only, name)

    def only_index(self, name: NormalizedName) -> Repository | None:
        """Return the only index that may supply a project, without reading it.

        :return: None if several sources may supply it, or a source beside the indexes does.
        """
        indexes, links = self._sources_for(name)
        is_first = len(indexes) == 1 or self._strategy == "first-index" or name in self._pins
        if not indexes or not is_first or name in self._markers or _pages(links, name):
            return None
        return indexes[0]

    def _sources_for(
        self, name: NormalizedName
    ) -> tuple[Sequence[Repository], Sequence[Repository]]:
        """Return the indexes and the further sources that may supply a project."""
        pinned = self._pins.get(name)
        if pinned is None:
            return self._indexes, self._links
        return pinned, tuple(link for link in self._links if link.name in self._local)

    def later_pages(self, name: NormalizedName) -> list[ProjectPage]:
        """Return the pages of the indexes not read because an earlier one has the project.

        :raises NetworkError: one of them cannot be read.
        """
        if self._strategy != "first-index" or name in self._pins:
            return []
        if name not in self._looked_up:
            self.project(name)
        number = self._suppliers.get(name)
        return [] if number is None else _pages(self._indexes[number + 1 :], name)

    def sources_of(self, name: NormalizedName, version: Version) -> tuple[str, ...]:
        """Return the sources that supply wheels of a release beside the local ones.

        :raises NetworkError: one of them cannot be read.
        """
        indexes: Sequence[Repository] = self._pins.get(name, self._indexes)
        pages = _pages((*self._links, *indexes), name)
        return tuple(
            page.source
            for page in pages
            if page.source not in self._local
            and any(_is_wheel_of(version, file.filename) for file in page.files)
        )

    @property
    def looked_up_projects(self) -> tuple[NormalizedName, ...]:
        """The projects that were looked up, in this order."""
        return tuple(self._looked_up)

    @property
    def has_later_indexes(self) -> bool:
        """Whether there are indexes read only for projects missing from earlier ones."""
        return self._strategy == "first-index" and len(self._indexes) > 1

    def _first(
        self, indexes: Iterable[Repository], name: NormalizedName, linked: list[ProjectPage]
    ) -> list[ProjectPage]:
        """Return the page of the first index that has a project, if any has it."""
        failure: NetworkError | None = None
        page = None
        for number, index in enumerate(indexes):
            if failure is not None and index.name not in self._local:
                continue
            try:
                page = index.project(name)
            except NetworkError as error:
                failure = error
                continue
            if page is not None:
                self._suppliers[name] = number
                break
        if failure is None:
            return [] if page is None else [page]
        substitute = page or next(
            (linked_page for linked_page in linked if linked_page.source in self._local), None
        )
        if substitute is None:
            raise failure
        self._note(f"{name} comes from {substitute.source}, because {failure.message}")
        return [] if page is None else [page]

    def _reader(self, file: File) -> Files:
        """Return the repository that listed a file, if one of them did."""
        if (listing_repository := self._by_name.get(file.source)) is not None:
            return listing_repository
        if self._others is not None:
            return self._others
        if not self._repositories:
            raise ProjectNotFound("there is no source to read files from")
        return self._repositories[0]


def _is_wheel_of(version: Version, filename: str) -> bool:
    """Return whether a file is a wheel of a version, by its name."""
    wheel = wheel_filename_of(filename)
    return wheel is not None and wheel.version == version


def _pages(repositories: Iterable[Repository], name: NormalizedName) -> list[ProjectPage]:
    return [page for repository in repositories if (page := repository.project(name)) is not None]


def _joined(
    name: NormalizedName,
    pages: Sequence[ProjectPage],
    order: tuple[str, ...] = (),
    markers: Sequence[tuple[str, str | None]] = (),
) -> ProjectPage | None:
    """Return several pages as one; ``source`` of each file is its repository.

    A wheel hides those of its name on later pages, unless its page counts only under a marker.
    """
    if len(pages) < 2 and not (pages and markers):
        return pages[0] if pages else None
    wheels: set[str] = set()
    with_markers = {source for source, _ in markers}
    files: list[File] = []
    for page in pages:
        new_files = [file for file in page.files if file.filename not in wheels]
        files += new_files
        if page.source not in with_markers:
            wheels.update(file.filename for file in new_files if file.filename.endswith(".whl"))
    notes = tuple(note for page in pages for note in page.notes)
    source = ", ".join(page.source for page in pages)
    status = next((page.status for page in pages if page.status), ACTIVE)
    return ProjectPage(
        name, tuple(files), source, notes, status=status, order=order, markers=tuple(markers)
    )
