"""Several indexes as one, in which every project belongs to one of them.

Files of two sources are never on one page: otherwise any publisher on one of them could supply
projects of the others (dependency confusion).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.core.filename import project_of
from wheelfit.core.project_patterns import fits
from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.memory_cache import MemoryCache

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.repository import Content, Index


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

    named: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By normalised name of a project: the name of the only source that may supply it."""
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
        for project, name in self._owners.named.items():
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
        owned = self.page_of_owner(name)
        return None if owned is None else owned[1]

    def page_of_owner(self, name: NormalizedName) -> tuple[MergedSource, ProjectPage] | None:
        """Return the source that supplies a project, with its page."""
        for source in self._candidates(name):
            page = source.index.project(name)
            if page is not None:
                return source, page
            if source.owns_name(name):
                return None
        return None

    def is_from_uploads(self, name: NormalizedName) -> bool:
        """Return whether a project comes from uploads alone."""
        sources = self._candidates(name)
        return all(source.is_own for source in sources) or any(
            source.owns_name(name) for source in sources
        )

    def stamp(self, name: NormalizedName) -> Hashable | None:
        """Return a stamp that changes with the page."""
        for source in self._candidates(name):
            stamp = source.index.stamp(name)
            if self._has_page(source, name, stamp):
                return None if stamp is None else (source.name, stamp)
            if source.owns_name(name):
                return None
        return None

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a file, from the owner of its project."""
        suffix = next(filter(filename.endswith, _SUFFIXES), "")
        name = project_of(filename.removesuffix(suffix))
        if name is None:
            return None
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
            return (self._by_name[named],)
        if fits(name, self._owners.reserved):
            return tuple(source for source in self._sources if source.is_own)
        return self._sources

    def _has_page(self, source: MergedSource, name: NormalizedName, stamp: Hashable | None) -> bool:
        """Return whether a source has a project, from the cache while its stamp is unchanged."""
        if stamp is None:
            return source.index.project(name) is not None
        cached = self._has_page_cache.peek((source.name, name))
        if cached is None or cached[0] != stamp:
            cached = (stamp, source.index.project(name) is not None)
            self._has_page_cache.put((source.name, name), cached)
        return cached[1]
