"""The files of a page by release, most of which are read only when they are needed.

A resolution needs the files of one release of most projects. Of the other releases it needs only
the tags and ``requires-python`` of the wheels, which a stored page has in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias, overload

from msgspec import Struct, field

from wheelfit.core.filename import (
    parse_index_file_name,
    parse_newer_wheel_filename,
    parse_wheel_filename,
    sdist_release,
)
from wheelfit.core.versions import without_build
from wheelfit.errors import InvalidFilename

if TYPE_CHECKING:
    from packaging.tags import Tag
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename
    from wheelfit.sources.page import File, ProjectPage

WheelKind: TypeAlias = "tuple[frozenset[Tag] | None, str | None]"
"""The tags and the ``requires-python`` of a wheel; its tags are None if its format is newer."""


class PageRelease(Protocol):
    """A release as a page lists it."""

    version: Version
    """As the files spell it: ``2.1`` and ``2.1.0`` are equal, and callers may use either."""

    @property
    def kinds(self) -> Iterable[WheelKind]:
        """The kinds of its wheels."""

    @property
    def source_pythons(self) -> Sequence[str | None]:
        """The ``requires-python`` of its best source distribution, as the only item, maybe None.

        Empty if it has no source distribution.
        """

    @property
    def is_partly_yanked(self) -> bool:
        """Whether any file was yanked (PEP 592)."""

    @property
    def has_variants(self) -> bool:
        """Whether any wheel has a label."""

    def files(self) -> ReleaseFiles:
        """Return its files."""


class ReleaseFiles(Struct):
    """The files of a release: a ``PageRelease``."""

    version: Version
    wheels: list[tuple[File, WheelFilename]] = field(default_factory=list)
    """In the order of the page, like the other lists."""
    index_files: list[File] = field(default_factory=list)
    sources: list[File] = field(default_factory=list)

    @property
    def kinds(self) -> Iterator[WheelKind]:
        """The kinds of its wheels."""
        for file, filename in self.wheels:
            yield None if filename.is_newer_format else filename.tags, file.requires_python

    @property
    def source_pythons(self) -> Sequence[str | None]:
        """The ``requires-python`` of its best source distribution; empty: it has none."""
        return (best_source(self.sources).requires_python,) if self.sources else ()

    @property
    def is_partly_yanked(self) -> bool:
        """Whether any file was yanked (PEP 592)."""
        files = (*(file for file, _ in self.wheels), *self.sources)
        return any(file.yanked is not None for file in files)

    @property
    def has_variants(self) -> bool:
        """Whether any wheel has a label."""
        return any(filename.is_variant for _, filename in self.wheels)

    def files(self) -> ReleaseFiles:
        """Return the release itself."""
        return self


class SortedFiles(Struct, frozen=True):
    """The files of a page by release."""

    releases: Mapping[Version, PageRelease]
    """Newest first."""
    ignored: tuple[str, ...]
    """The wheels that are not of the project or have invalid names, one clause each."""


def best_source(sources: Sequence[File]) -> File:
    """Return the preferred source distribution: not a yanked one, then not a ZIP file.

    :param sources: at least one.
    """
    return min(
        sources, key=lambda source: (source.yanked is not None, source.filename.endswith(".zip"))
    )


def sort_by_release(
    name: NormalizedName, files: Iterable[File], *, joins_builds: bool = False
) -> SortedFiles:
    """Sort files by the release in their name.

    :param name: the project; files of others are left out.
    :param files: in the order of the page.
    :param joins_builds: whether versions that differ in their local part alone are one release.
    """
    sorting = _Sorting(name, joins_builds)
    for file in files:
        sorting.add(file)
    newest_first = sorted(sorting.releases.items(), key=itemgetter(0), reverse=True)
    return SortedFiles(dict(newest_first), tuple(sorting.ignored))


def files_by_release(page: ProjectPage) -> SortedFiles:
    """Return the files of a page by release; those of a stored page are not read."""
    if isinstance(page.files, PageFiles) and not page.has_joined_builds:
        return page.files.by_release
    return sort_by_release(page.name, page.files, joins_builds=page.has_joined_builds)


class _Sorting(Struct):
    """The files of a page sorted so far."""

    name: NormalizedName
    joins_builds: bool
    ignored: list[str] = field(default_factory=list)
    releases: dict[Version, ReleaseFiles] = field(default_factory=dict)

    def add(self, file: File) -> None:
        if file.filename.endswith(".whl"):
            self._add_wheel(file)
            return
        newer = parse_newer_wheel_filename(file.filename)
        if newer is not None and newer.name == self.name:
            self._files(newer.version).wheels.append((file, newer))
            return
        index_file = parse_index_file_name(file.filename)
        if index_file is not None:
            if index_file[0] == self.name:
                # F-78: compared by value, 1.0 is 1.0.0.
                self._files(index_file[1]).index_files.append(file)
            return
        release = sdist_release(file.filename)
        if release is not None and release[0] == self.name:
            self._files(release[1]).sources.append(file)

    def _add_wheel(self, file: File) -> None:
        try:
            filename = parse_wheel_filename(file.filename)
        except InvalidFilename as error:
            self.ignored.append(error.message)
            return
        if filename.name != self.name:
            self.ignored.append(f"{file.filename} belongs to {filename.name}")
            return
        self._files(filename.version).wheels.append((file, filename))

    def _files(self, version: Version) -> ReleaseFiles:
        if self.joins_builds:
            version = without_build(version)
        files = self.releases.get(version)
        if files is None:
            files = self.releases[version] = ReleaseFiles(version)
        return files


class PageFiles(Sequence["File"]):
    """The files of a page in its order, read only when needed.

    :param read: returns all files.
    :param others: returns the files without a release.
    """

    def __init__(
        self,
        by_release: SortedFiles,
        count: int,
        read: Callable[[], tuple[File, ...]],
        others: Callable[[], Iterable[File]],
    ) -> None:
        self.by_release = by_release
        self._count = count
        self._read = read
        self._others = others

    @cached_property
    def _all(self) -> tuple[File, ...]:
        return self._read()

    def of(self, versions: Iterable[Version]) -> Iterator[File]:
        """Yield the files of some releases and those without a release, in any order.

        :param versions: the releases; missing ones have no files.
        """
        for version in versions:
            if (release := self.by_release.releases.get(version)) is not None:
                files = release.files()
                yield from (file for file, _ in files.wheels)
                yield from files.index_files
                yield from files.sources
        yield from self._others()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> File: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[File, ...]: ...
    def __getitem__(self, index: int | slice) -> File | tuple[File, ...]:
        return self._all[index]

    def __iter__(self) -> Iterator[File]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, PageFiles)) and self._all == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all)
