"""Several indexes as one, in which every project belongs to one of them.

Files of two sources are never on one page, unless the operator allows it for a project: otherwise
any publisher on one of them could supply projects of the others (dependency confusion).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.core.filename import parse_index_file_name, project_of
from wheelfit.core.project_patterns import fits
from wheelfit.server.upstream.documents import release_of_variant
from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.page import File, ProjectPage

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.sources.repository import Content, Index, Redirect


_SUFFIXES = (".metadata", ".provenance")
_MAX_CACHED = 50_000


@dataclass(frozen=True, slots=True)
class MergedSource:
    """An index among several."""

    name: str
    """Its name in the rules about owners."""
    index: Index
    is_own: bool = False
    """Whether projects are uploaded there; only such sources supply reserved names."""
    owns_name: Callable[[NormalizedName], bool] = field(default=lambda _name: False, compare=False)
    """Returns whether a project without a page belongs to the source, because all files were
    deleted, or none are published yet. No other source may supply it."""


@dataclass(frozen=True, slots=True)
class OwnerRules:
    """The operator's rules about the sources that supply each project."""

    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """By normalised name of a project: the names of the only sources that may supply it; the files
    of several are merged on one page, the most important first."""
    reserved: tuple[str, ...] = ()
    """Patterns of names that only own sources supply, such as ``acme-*``."""


class MergedIndex(ContentFiles):
    """The projects of several indexes: an `Index`.

    The first in order that has a project owns it; files of the others are ignored. If a source
    cannot be read, the search ends: an outage must not change the owner of a project.

    :param sources: the most important first; own ones before mirrors.
    :raises ValueError: a rule names a source that does not exist.
    """

    def __init__(self, sources: Sequence[MergedSource], owners: OwnerRules = OwnerRules()) -> None:
        self._sources = tuple(sources)
        self.name = ", ".join(source.name for source in self._sources)
        self._owners = owners
        self._by_name = {source.name: source for source in self._sources}
        for project, names in self._owners.named.items():
            for name in names:
                if name not in self._by_name:
                    raise ValueError(f"the owner of {project} is {name}, which is not a source")
        self._has_page_cache: MemoryCache[tuple[Hashable, bool]] = MemoryCache(
            _MAX_CACHED, lambda _entry: 1
        )
        """By source and project: a stamp, and whether the source had a page then."""

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects, sorted."""
        names = {
            name
            for source in self._sources
            for name in source.index.projects()
            if source in self._candidates(name)
        }
        return sorted(names)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, from its owner."""
        if self._is_shared(name):
            return self._merged_page(name)
        return next((page for _, page in self.pages(name)), None)

    def pages(self, name: NormalizedName) -> Iterator[tuple[MergedSource, ProjectPage]]:
        """Yield the sources that supply a project, each with its page."""
        for source in self._candidates(name):
            page = source.index.project(name)
            if page is not None:
                yield source, page
            if not self._is_shared(name) and (page is not None or source.owns_name(name)):
                return

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a stamp that changes with the page."""
        stamps: list[Hashable] = []
        for source in self._candidates(name):
            stamp = source.index.stamp(name)
            if self._is_shared(name):
                stamps.append((source.name, stamp))
                if stamp is None and source.index.project(name) is not None:
                    return None
            elif self._has_page(source, name, stamp):
                return None if stamp is None else (source.name, stamp)
            elif source.owns_name(name):
                return None
        return tuple(stamps) or None

    def content(self, filename: str) -> Content | Redirect | None:
        """Return the bytes of a file, from the owner of its project."""
        suffix = next(filter(filename.endswith, _SUFFIXES), "")
        name = project_of(filename.removesuffix(suffix))
        if name is None:
            return None
        if self._is_shared(name):
            return self._merged_content(name, filename, suffix)
        for source in self._candidates(name):
            content = source.index.content(filename)
            if content is not None:
                return content
            stamp = source.index.stamp(name)
            if self._has_page(source, name, stamp) or source.owns_name(name):
                return None
        return None

    # --- owners -----------------------------------------------------------------------

    def _candidates(self, name: NormalizedName) -> tuple[MergedSource, ...]:
        """Return the sources that may supply a project, the most important first."""
        named = self._owners.named.get(name)
        if named is not None:
            return tuple(self._by_name[source] for source in named)
        if fits(name, self._owners.reserved):
            return tuple(source for source in self._sources if source.is_own)
        return self._sources

    def _is_shared(self, name: NormalizedName) -> bool:
        """Return whether several sources may supply a project together."""
        return len(self._owners.named.get(name, ())) > 1

    def _has_page(self, source: MergedSource, name: NormalizedName, stamp: Hashable | None) -> bool:
        """Return whether a source has a project, from the cache while its stamp is unchanged."""
        if stamp is None:
            return source.index.project(name) is not None
        cached = self._has_page_cache.peek((source.name, name))
        if cached is None or cached[0] != stamp:
            cached = (stamp, source.index.project(name) is not None)
            self._has_page_cache.put((source.name, name), cached)
        return cached[1]

    # --- several on one page ------------------------------------------------------------

    def _merged_page(self, name: NormalizedName) -> ProjectPage | None:
        """Return the files of several sources on one page."""
        pages = [page for _, page in self.pages(name)]
        if not pages:
            return None
        files = _without_clashes([page.files for page in pages])
        notes = [note for page in pages for note in page.notes]
        if len(files) < sum(len(page.files) for page in pages):
            notes.append(
                "of files with the same name, and of variants of one release, only those of the "
                "first source are listed"
            )
        source = ", ".join(page.source for page in pages)
        # A source that withholds its files does not decide for the others.
        statuses = [page.status for page in pages if not page.status.is_quarantined]
        status = (statuses or [pages[0].status])[0]
        withheld = tuple(reason for page in pages for reason in page.withheld)
        return ProjectPage(name, files, source, tuple(notes), status=status, withheld=withheld)

    def _merged_content(
        self, name: NormalizedName, filename: str, suffix: str
    ) -> Content | Redirect | None:
        base = filename.removesuffix(suffix)
        pages: list[Sequence[File]] = []
        for source in self._candidates(name):
            page = source.index.project(name)
            if page is None:
                continue
            pages.append(page.files)
            if any(file.filename == base for file in page.files):
                is_listed = any(file.filename == base for file in _without_clashes(pages))
                return source.index.content(filename) if is_listed else None
        return None


def _without_clashes(pages: Iterable[Sequence[File]]) -> tuple[File, ...]:
    """Return the files of several pages, one of each name.

    Variants of a release come from the first source that has some: equal labels of two sources
    need not mean the same (F-126).
    """
    by_name: dict[str, File] = {}
    variants: set[object] = set()
    for files in pages:
        new_variants: set[object] = set()
        for file in files:
            release = _variant_release(file.filename)
            if file.filename in by_name or (release is not None and release in variants):
                continue
            if release is not None:
                new_variants.add(release)
            by_name[file.filename] = file
        variants |= new_variants
    return tuple(by_name.values())


def _variant_release(filename: str) -> object:
    """Return the release that a variant wheel or document belongs to; None of other files."""
    return parse_index_file_name(filename) or release_of_variant(filename)
