"""Fill the mirrors of a live index ahead of time: by requirements, by a lock, or by a family."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace as replace_file
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.filename import project_of, release_of, wheel_filename_of
from wheelfit.core.sizes import size_in_words
from wheelfit.errors import StorageUnavailable, UsageError
from wheelfit.operations.downloads import MOST_FAILURES, FailedFile
from wheelfit.operations.lock_files import load_lock
from wheelfit.operations.plain_data import PlainFields, PlainReport
from wheelfit.operations.requests import RequirementOptions, ValidatedRequest
from wheelfit.operations.requirements import read_requirements
from wheelfit.server.hosting.settings import ServerSettings, read_settings
from wheelfit.server.store.opening import open_store
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.upstream.mirrored import MirroredIndex
from wheelfit.server.upstream.opening import MirroredFamily, Mirrors, open_mirrors_in
from wheelfit.sources.advisories import Advisories
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.page import VARIANTS_SUFFIX, File, ProjectPage
from wheelfit.sources.urls import last_segment
from wheelfit.wheels.disk_space import free_space
from wheelfit_runtime.errors import InvalidConfiguration, NetworkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from packaging.version import Version

    from wheelfit.operations.context import Context
    from wheelfit.server.upstream.merged import MergedIndex
    from wheelfit.sources.progress import Progress

_MAX_FETCHES = 4
"""Simultaneous fetches; few, since a running server uses the same upstreams."""


class PrefetchRequest(ValidatedRequest):
    """The projects to fetch into the mirrors of a live index, with the settings of its server."""

    requirements: tuple[str, ...] = ()
    requirement: tuple[str, ...] = ()
    lock: str | None = None
    family: tuple[str, ...] = ()
    accelerator: tuple[str, ...] = ()
    newest: int = 0
    dry_run: bool = False
    settings: str | None = None
    options: Mapping[str, str | None] = MappingProxyType({})
    """Settings of the server by their keys in the file, as text; None: not given."""


@dataclass(frozen=True, slots=True)
class PlannedProject(PlainFields):
    """The files of a project that a mirror will keep."""

    name: str
    mirror: str
    releases: int
    files: int
    size: int
    """Total size of the files of known size, in bytes."""
    unknown: int
    """Number of files of unknown size."""
    existing: int
    """Files that are kept already."""
    existing_size: int
    """Their bytes."""


@dataclass(frozen=True, slots=True)
class PrefetchReport(PlainReport):
    """The contents of the mirrors, present or planned."""

    dry_run: bool
    projects: tuple[PlannedProject, ...]
    missing: tuple[str, ...]
    """Requested projects or files that no mirror has."""
    fetched: int = 0
    fetched_size: int = 0
    failed: tuple[FailedFile, ...] = ()


def prefetch(request: PrefetchRequest, context: Context) -> PrefetchReport:
    """Fetch files into the mirrors of a live index, so that it needs no upstream for them.

    Present files are not fetched again, so a prefetch continues where an earlier one ended. Servers
    of the index may run meanwhile.

    :raises UsageError: no project is requested, or a server is named.
    :raises InvalidConfiguration: no index is mirrored, or a requested family is not.
    :raises StorageUnavailable: there is too little room.
    """
    selection = _read_selection(request, context.environ)
    if "://" in (request.options.get("folder") or ""):
        raise UsageError(
            "mirrors are filled on the machine that has them, not over a server",
            hint="--at DIR names the folder of the index",
        )
    settings = read_settings(request.options, context.environ, request.settings)
    if not settings.mirrors:
        raise InvalidConfiguration(
            "the index has no mirrors", hint="name them with --mirror, or with --settings FILE"
        )
    advisories = None
    if settings.vulnerabilities is not None and settings.denies_vulnerable:
        advisories = Advisories(settings.vulnerabilities, context.reporter.warn)
    store = open_store(settings.folder, records=settings.database, blobs=settings.storage)
    with closing(store):
        mirrors = open_mirrors_in(
            settings.folder,
            settings.mirrors,
            settings.mirror_storage,
            environ=context.environ,
            note=context.reporter.detail,
            advisories=advisories,
        )
        try:
            index = mirrors.merge_with_uploads(
                StoredIndex(store), owners=settings.owners, owns_name=store.records.owns_name
            )
            with context.reporter.work("reading pages") as progress:
                plan = _plan(request, selection, mirrors, index, progress)
            if request.dry_run:
                return plan.report(dry_run=True)
            _check_room(plan, settings)
            with context.reporter.work("fetching") as progress:
                return _fetch(plan, mirrors, progress)
        finally:
            mirrors.close()


@dataclass(frozen=True, slots=True)
class _Selection:
    """The files that a request selects."""

    specifiers: Mapping[NormalizedName, tuple[SpecifierSet, ...]]
    """By project that requirements name: a release must match one of them."""
    locked: Mapping[NormalizedName, Mapping[str, Mapping[str, str]]]
    """By project of a lock: digests by algorithm, by file name."""
    accelerators: tuple[str, ...]
    """Patterns of the labels of variant wheels, and of folders of families; empty: all."""
    newest: int
    """Number of newest releases of each project; 0: all."""

    @property
    def names(self) -> tuple[NormalizedName, ...]:
        return tuple(dict.fromkeys((*self.specifiers, *self.locked)))

    def has_folder(self, folder: str) -> bool:
        """Return whether an index of a family is for one of the accelerators."""
        return not self.accelerators or any(map(self._fits, folder.split("/")))

    def files(self, page: ProjectPage) -> tuple[File, ...]:
        """Return the requested files on a page, with documents of variants."""
        by_release: dict[Version, list[File]] = {}
        for file in page.files:
            release = release_of(file.filename)
            if release is not None and self._fits_accelerators(file.filename):
                by_release.setdefault(release[1], []).append(file)
        locked = self.locked.get(page.name)
        if locked is not None:
            return tuple(_files_of_lock(by_release.values(), locked))
        versions = sorted(by_release, reverse=True)
        specifiers = self.specifiers.get(page.name) or (SpecifierSet(),)
        fitting = {version for specifier in specifiers for version in specifier.filter(versions)}
        chosen = [version for version in versions if version in fitting]
        return tuple(
            file for version in chosen[: self.newest or None] for file in by_release[version]
        )

    def _fits_accelerators(self, filename: str) -> bool:
        """Return whether a file has a label for one of the accelerators, or no label."""
        wheel = wheel_filename_of(filename) if self.accelerators else None
        return wheel is None or wheel.label is None or self._fits(str(wheel.label))

    def _fits(self, text: str) -> bool:
        return any(fnmatchcase(text, pattern) for pattern in self.accelerators)


def _files_of_lock(
    releases: Iterable[list[File]], locked: Mapping[str, Mapping[str, str]]
) -> Iterator[File]:
    """Yield the files of a lock that a page has, with the documents of their releases."""
    for files in releases:
        files_of_lock = [
            file
            for file in files
            if (digests := locked.get(file.filename)) is not None
            and all(file.hashes.get(kind, digest) == digest for kind, digest in digests.items())
        ]
        if files_of_lock:
            yield from files_of_lock
            yield from (file for file in files if file.filename.endswith(VARIANTS_SUFFIX))


def _read_selection(request: PrefetchRequest, environ: Mapping[str, str]) -> _Selection:
    specifiers: dict[NormalizedName, tuple[SpecifierSet, ...]] = {}
    locked: dict[NormalizedName, dict[str, Mapping[str, str]]] = {}
    if request.requirements or request.requirement:
        options = RequirementOptions(
            requirements=request.requirements, requirement=request.requirement
        )
        requirement_set = read_requirements(options, environ)
        requirements = [item.requirement for item in requirement_set.requirements]
        has_urls = any(requirement.url for requirement in requirements)
        if requirement_set.wheels or requirement_set.sources or has_urls:
            raise UsageError(
                "only projects of an index can be prefetched", hint="name them as torch>=2.8"
            )
        for requirement in requirements:
            earlier = specifiers.get(requirement.name, ())
            specifiers[requirement.name] = (*earlier, requirement.specifier)
    if request.lock is not None:
        for package in load_lock(Path(request.lock)).packages:
            if package.kind not in ("wheels", "sdist"):
                continue  # archives, folders and repositories are on no index
            hashes = locked.setdefault(package.name, {})
            for wheel in package.wheels:
                filename = last_segment(wheel.url) if wheel.url else wheel.filename.text
                hashes[filename] = wheel.hashes
            if package.source is not None:
                hashes[package.source.filename] = package.source.hashes
    if not (specifiers or locked or request.family):
        raise UsageError(
            "no projects were given",
            hint="name requirements, a file of them with -r, a lock with --lock, or a family "
            "with --family",
        )
    return _Selection(specifiers, locked, request.accelerator, request.newest)


@dataclass(frozen=True, slots=True)
class _MirrorFile:
    """A file that a mirror will keep."""

    mirror: MirroredIndex
    file: File
    is_kept: bool

    @property
    def is_document(self) -> bool:
        """Whether it is a ``-variants.json``, which the mirror keeps with its pages."""
        return self.file.filename.endswith(VARIANTS_SUFFIX)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The files that the mirrors will have."""

    projects: tuple[PlannedProject, ...]
    files: tuple[_MirrorFile, ...]
    missing: tuple[str, ...]
    failed: tuple[FailedFile, ...]

    @property
    def to_fetch(self) -> int:
        """Bytes to fetch, as far as sizes are known."""
        return sum(project.size - project.existing_size for project in self.projects)

    def report(self, *, dry_run: bool) -> PrefetchReport:
        """Return the report before anything was fetched."""
        return PrefetchReport(dry_run, self.projects, self.missing, failed=self.failed)


@dataclass(frozen=True, slots=True)
class _PageToRead:
    """A project, and the function that reads its pages."""

    name: NormalizedName
    read: Callable[[NormalizedName], Iterable[tuple[MirroredIndex, ProjectPage]]]


def _plan(
    request: PrefetchRequest,
    selection: _Selection,
    mirrors: Mirrors,
    index: MergedIndex,
    progress: Progress,
) -> _Plan:
    """Read the pages of all requested projects, and return their files to keep."""
    failed: list[FailedFile] = []
    families = [_family(name, mirrors) for name in request.family]
    if selection.locked and not families:  # a lock does not say which family a wheel is of
        families = list(mirrors.families.values())
    pages: list[_PageToRead] = []
    if not request.family:
        pages += [_PageToRead(name, partial(_pages, index)) for name in selection.names]
    for family in families:
        pages += _family_pages(family, selection, failed)

    def read_page(page: _PageToRead) -> list[_MirrorFile]:
        try:
            return [
                _with_size(mirror, file)
                for mirror, project_page in page.read(page.name)
                for file in selection.files(project_page)
            ]
        except NetworkError as error:
            failed.append(FailedFile(page.name, error.message))
            return []
        finally:
            progress.advance(1)

    progress.start(len(pages))
    files = [*chain.from_iterable(map_concurrently(pages, read_page, most=_MAX_FETCHES))]
    progress.done()
    return _Plan(
        _projects(files),
        tuple(files),
        tuple(_missing(selection, files, {failure.name for failure in failed})),
        tuple(failed),
    )


def _missing(
    selection: _Selection, mirror_files: Iterable[_MirrorFile], failed: AbstractSet[str]
) -> Iterator[str]:
    """Yield projects without a requested file, and locked files that no page has."""
    files = {file.file.filename for file in mirror_files}
    projects = {project_of(name) for name in files}
    for name in selection.names:
        if name in failed:
            continue
        if name not in projects:
            yield name
        else:
            yield from (file for file in selection.locked.get(name, ()) if file not in files)


def _family(name: str, mirrors: Mirrors) -> MirroredFamily:
    family = mirrors.families.get(name)
    if family is None:
        raise InvalidConfiguration(
            f"the index does not mirror the family {name}",
            hint=f"add --mirror {name}"
            + (f"; there is {', '.join(mirrors.families)}" if mirrors.families else ""),
        )
    return family


def _pages(index: MergedIndex, name: NormalizedName) -> Iterator[tuple[MirroredIndex, ProjectPage]]:
    """Yield the page of a project with its mirror; uploaded files need no fetch."""
    owned = index.page_of_owner(name)
    if owned is not None and isinstance(owned[0].index, MirroredIndex):
        yield owned[0].index, owned[1]


def _page(
    mirror: MirroredIndex, name: NormalizedName
) -> Iterator[tuple[MirroredIndex, ProjectPage]]:
    """Yield the page of a project in one mirror, if it has one."""
    page = mirror.project(name)
    if page is not None:
        yield mirror, page


def _family_pages(
    family: MirroredFamily, selection: _Selection, failed: list[FailedFile]
) -> Iterator[_PageToRead]:
    """Yield the projects in the mirrors of a family."""
    mirrors_by_path = {**family.folders, **family.pages, **family.files}
    mirrors = [mirror for path, mirror in mirrors_by_path.items() if selection.has_folder(path)]
    for mirror in dict.fromkeys(mirrors):
        try:
            names = list(family.family.projects)
            if any("*" in name for name in names):
                names += mirror.listed_projects()
        except NetworkError as error:
            failed.append(FailedFile(mirror.name, error.message))
        for name in map(canonicalize_name, dict.fromkeys(names)):
            is_requested = not selection.names or name in selection.names
            if is_requested and "*" not in name and family.family.has_project(name):
                yield _PageToRead(name, partial(_page, mirror))


def _with_size(mirror: MirroredIndex, file: File) -> _MirrorFile:
    """Return a file with its size, requested from its server if the page has none."""
    mirror_file = _MirrorFile(mirror, file, mirror.is_stored(file))
    if file.size is not None or mirror_file.is_kept or mirror_file.is_document:
        return mirror_file
    return replace(mirror_file, file=replace_file(file, size=mirror.size_of(file.filename)))


def _projects(mirror_files: Iterable[_MirrorFile]) -> tuple[PlannedProject, ...]:
    """Return the counts and sizes of the files of each project in each mirror."""
    by_project: dict[tuple[str, str], list[_MirrorFile]] = {}
    for mirror_file in mirror_files:
        release = release_of(mirror_file.file.filename)
        if release is not None and not mirror_file.is_document:
            by_project.setdefault((release[0], mirror_file.mirror.name), []).append(mirror_file)
    return tuple(
        PlannedProject(
            name,
            mirror,
            len({release_of(mirror_file.file.filename) for mirror_file in files}),
            len(files),
            sum(mirror_file.file.size or 0 for mirror_file in files),
            sum(mirror_file.file.size is None for mirror_file in files),
            sum(mirror_file.is_kept for mirror_file in files),
            sum(mirror_file.file.size or 0 for mirror_file in files if mirror_file.is_kept),
        )
        for (name, mirror), files in sorted(by_project.items())
    )


def _check_room(plan: _Plan, settings: ServerSettings) -> None:
    """Raise if a plan does not fit, before anything is fetched."""
    size = sum(project.size for project in plan.projects)
    limits = [mirror.max_size for mirror in settings.mirrors if mirror.max_size is not None]
    if limits and size > min(limits):
        raise InvalidConfiguration(
            f"the files need {size_in_words(size)}, and mirrors may keep "
            f"{size_in_words(min(limits))}: the first files would be removed before the last are "
            "fetched",
            hint="raise --mirror-max-size, or prefetch fewer releases",
        )
    free = free_space(settings.folder) if settings.mirror_storage is None else None
    if free is not None and plan.to_fetch > free:
        raise StorageUnavailable(
            f"{size_in_words(plan.to_fetch)} are to be fetched, and {size_in_words(free)} are free",
            where=str(settings.folder),
            cause="full",
        )


def _fetch(plan: _Plan, mirrors: Mirrors, progress: Progress) -> PrefetchReport:
    """Fetch missing files with their METADATA and provenance, and documents."""
    failed = list(plan.failed)
    fetched: list[int] = []

    def fetch(mirror_file: _MirrorFile) -> None:
        mirror, filename = mirror_file.mirror, mirror_file.file.filename
        try:
            if mirror_file.is_document:
                mirror.content(filename)
                return
            if not mirror_file.is_kept:
                mirror.fetch_and_store(filename, progress.advance)
                fetched.append(mirror_file.file.size or 0)
            if mirror_file.file.metadata_hashes is not None:
                mirror.content(f"{filename}.metadata")
            if mirror_file.file.provenance is not None:
                mirror.content(f"{filename}.provenance")
        except NetworkError as error:
            failed.append(FailedFile(filename, error.message))
            if len(failed) > MOST_FAILURES:
                raise

    progress.start(plan.to_fetch)
    if plan.files:
        map_concurrently(plan.files, fetch, most=_MAX_FETCHES, cancel=mirrors.cancel)
    progress.done()
    return replace(
        plan.report(dry_run=False),
        fetched=len(fetched),
        fetched_size=sum(fetched),
        failed=tuple(failed),
    )
