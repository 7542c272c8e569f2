"""Fill the mirrors of a live index ahead of time: by requirements, by a lock, or by a family."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.filename import project_of, release_of, wheel_filename_of
from wheelfit.core.sizes import size_in_words
from wheelfit.errors import UsageError
from wheelfit.operations.downloads import MOST_FAILURES, FailedFile
from wheelfit.operations.lock_files import load_lock
from wheelfit.operations.plain_data import PlainReport
from wheelfit.operations.requests import RequirementOptions, ValidatedRequest
from wheelfit.operations.requirements import read_requirements
from wheelfit.server.hosting.settings import read_settings
from wheelfit.server.store.opening import open_store
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.upstream.mirrored import MirroredIndex
from wheelfit.server.upstream.opening import MirroredFamily, Mirrors, open_mirrors_in
from wheelfit.sources.advisories import Advisories
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.page import VARIANTS_SUFFIX, File, ProjectPage
from wheelfit.sources.urls import last_segment
from wheelfit_runtime.errors import InvalidConfiguration, NetworkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from packaging.version import Version

    from wheelfit.operations.context import Context
    from wheelfit.server.hosting.settings import ServerSettings
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
    dry_run: bool = False
    settings: str | None = None
    options: Mapping[str, str | None] = MappingProxyType({})
    """Settings of the server by their keys in the file, as text; None: not given."""


@dataclass(frozen=True, slots=True)
class PrefetchReport(PlainReport):
    """The files that mirrors keep for a request, present or planned."""

    dry_run: bool
    files: int
    """Requested files."""
    existing: int
    """Files that were kept before."""
    size: int | None
    """Bytes of the other files; None: a page does not list the size of one."""
    missing: tuple[str, ...]
    """Requested projects or files that no mirror has."""
    uploaded: tuple[str, ...] = ()
    """Those projects of them that come from uploads alone."""
    fetched: int = 0
    fetched_size: int = 0
    failed: tuple[FailedFile, ...] = ()


def prefetch(request: PrefetchRequest, context: Context) -> PrefetchReport:
    """Fetch files into the mirrors of a live index, so that it needs no upstream for them.

    Present files are not fetched again, so a prefetch continues where an earlier one ended. Servers
    of the index may run meanwhile.

    :raises UsageError: no project is requested, or a server is named.
    :raises InvalidConfiguration: no index is mirrored, or a requested family is not.
    :raises StorageUnavailable: a file cannot be stored.
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
                files, report = _plan(request, selection, mirrors, index, progress)
            if request.dry_run:
                return report
            _check_size(files, settings)
            with context.reporter.work("fetching") as progress:
                return _fetch(files, report, mirrors, progress)
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
        return tuple(
            file for version in versions if version in fitting for file in by_release[version]
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
    return _Selection(specifiers, locked, request.accelerator)


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
class _RequestedProject:
    """A project whose files a mirror will keep."""

    name: NormalizedName
    mirror: MirroredIndex | None = None
    """None: the mirror that owns the project."""

    def page(self, index: MergedIndex) -> tuple[MirroredIndex, ProjectPage] | None:
        """Return the page with its mirror; None if there is none, or the files are uploads."""
        if self.mirror is not None:
            page = self.mirror.project(self.name)
            return None if page is None else (self.mirror, page)
        owned = index.page_of_owner(self.name)
        if owned is None or not isinstance(owned[0].index, MirroredIndex):
            return None
        return owned[0].index, owned[1]


def _plan(
    request: PrefetchRequest,
    selection: _Selection,
    mirrors: Mirrors,
    index: MergedIndex,
    progress: Progress,
) -> tuple[list[_MirrorFile], PrefetchReport]:
    """Read the pages of all requested projects; return their files to keep, and a report."""
    failed: list[FailedFile] = []
    families = [_family(name, mirrors) for name in request.family]
    if selection.locked and not families:  # a lock does not say which family a wheel is of
        families = list(mirrors.families.values())
    projects = [] if request.family else list(map(_RequestedProject, selection.names))
    for family in families:
        projects += _family_projects(family, selection, failed)

    def read_page(project: _RequestedProject) -> list[_MirrorFile]:
        try:
            mirror_and_page = project.page(index)
        except NetworkError as error:
            failed.append(FailedFile(project.name, error.message))
            return []
        finally:
            progress.advance(1)
        if mirror_and_page is None:
            return []
        mirror, page = mirror_and_page
        return [_MirrorFile(mirror, file, mirror.is_stored(file)) for file in selection.files(page)]

    progress.start(len(projects))
    files = [*chain.from_iterable(map_concurrently(projects, read_page, most=_MAX_FETCHES))]
    progress.done()
    packages = [file for file in files if not file.is_document]
    missing = tuple(_missing(selection, files, {failure.name for failure in failed}))
    report = PrefetchReport(
        request.dry_run,
        files=len(packages),
        existing=sum(file.is_kept for file in packages),
        size=_size_of(file for file in packages if not file.is_kept),
        missing=missing,
        uploaded=tuple(
            name for name in selection.names if name in missing and index.is_from_uploads(name)
        ),
        failed=tuple(failed),
    )
    return files, report


def _size_of(files: Iterable[_MirrorFile]) -> int | None:
    """Return the bytes of files; None if a page does not list the size of one."""
    sizes = [file.file.size for file in files]
    return None if None in sizes else sum(filter(None, sizes))


def _check_size(files: Iterable[_MirrorFile], settings: ServerSettings) -> None:
    """Raise if a mirror would remove the first files before it has fetched the last."""
    limits = [mirror.max_size for mirror in settings.mirrors if mirror.max_size is not None]
    size = sum(file.file.size or 0 for file in files if not file.is_document)
    if limits and size > min(limits):
        raise InvalidConfiguration(
            f"the files need {size_in_words(size)}, and mirrors may keep "
            f"{size_in_words(min(limits))}",
            hint="raise --mirror-max-size, or request fewer releases",
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


def _family_projects(
    family: MirroredFamily, selection: _Selection, failed: list[FailedFile]
) -> Iterator[_RequestedProject]:
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
                yield _RequestedProject(name, mirror)


def _fetch(
    files: Sequence[_MirrorFile], plan: PrefetchReport, mirrors: Mirrors, progress: Progress
) -> PrefetchReport:
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
                fetched.append(mirror.fetch_and_store(filename, progress.advance))
            if mirror_file.file.metadata_hashes is not None:
                mirror.content(f"{filename}.metadata")
            if mirror_file.file.provenance is not None:
                mirror.content(f"{filename}.provenance")
        except NetworkError as error:
            failed.append(FailedFile(filename, error.message))
            if len(failed) > MOST_FAILURES:
                raise

    progress.start(plan.size or 0)
    if files:
        map_concurrently(files, fetch, most=_MAX_FETCHES, cancel=mirrors.cancel)
    progress.done()
    return replace(plan, fetched=len(fetched), fetched_size=sum(fetched), failed=tuple(failed))
