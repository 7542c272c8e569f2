"""Checks of a whole index: its projects, its exact pins, and whether variants are reachable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from wheelfit.checking import checks
from wheelfit.checking.findings import Location, Report, Severity, UncheckedTarget, listed_briefly
from wheelfit.checking.indexes.reachability import reach_findings
from wheelfit.checking.pages import listed_releases
from wheelfit.checking.targets.paths import check_paths
from wheelfit.checking.targets.projects import check_project
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.core.index_metadata import combine, contradictions
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.errors import InvalidRequirement
from wheelfit.resolution.version_set import is_pin
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.findings import Finding
    from wheelfit.checking.indexes.reachability import FindMachines
    from wheelfit.checking.releases import ReleaseFacts
    from wheelfit.core.document import VariantDocument
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.repository import Repository

_MAX_PROJECTS = 4
"""Projects that are checked in parallel; each requests several files at once."""


@dataclass(frozen=True, slots=True)
class IndexCheckOptions:
    """The options of an index check."""

    find_machines: FindMachines
    """Returns, for a document, machines that differ in the properties it uses."""
    upstream: Repository | None = None
    """Further sources that may have the pinned versions."""
    check_options: CheckOptions = CheckOptions()
    """The options of the checks of its projects or files."""


@dataclass(slots=True)
class _Collector:
    """The checked releases, collected from several threads."""

    find_machines: FindMachines
    releases: list[ReleaseFacts] = field(default_factory=list)

    def __call__(self, release: ReleaseFacts) -> Iterator[Finding]:
        """Add a release, and yield findings about unreachable variants."""
        self.releases.append(release)
        document = _document_of(release)
        if document is not None:
            yield from reach_findings(release, document, self.find_machines)


def _document_of(release: ReleaseFacts) -> VariantDocument | None:
    """Return the combined document of a release; None if there is none, or a contradiction."""
    for files in (release.index_files, release.variants):
        documents = [(file.where, file.document) for file in files if file.document is not None]
        if documents:
            return None if contradictions(documents) else combine(documents)
    return None


def check_index(
    repository: Repository,
    projects: Sequence[NormalizedName],
    options: IndexCheckOptions,
    *,
    now: datetime,
    progress: Progress = NO_PROGRESS,
) -> Report:
    """Check every release of every project of an index."""
    collector = _Collector(options.find_machines)
    report = Report()

    def check(name: NormalizedName) -> Report:
        unhashed: list[Finding] = []
        with suppress(WheelfitError):  # `check_project` reports it
            page = repository.project(name)
            if page is None:
                message = f"{name} is in the list of projects, but has no page"
                finding = Location(repository.name).finding(checks.STRANGE_ANSWER, message)
                return Report.of([finding])
            unhashed += _unhashed_files(page)
        project_report = check_project(
            repository,
            name,
            SpecifierSet(),
            now=now,
            options=options.check_options,
            with_plain_releases=True,
            on_release=collector,
        )
        return project_report + Report.of(unhashed)

    progress.start(len(projects))
    with ThreadPoolExecutor(_MAX_PROJECTS) as pool:
        for project_report in pool.map(check, projects):
            report += project_report
            progress.advance(1)
    progress.done()
    return report + _pin_report(collector.releases, [repository], {}, options)


def check_index_folder(
    folder: Path, options: IndexCheckOptions, *, progress: Progress = NO_PROGRESS
) -> Report:
    """Check a folder of wheels, or a local index."""
    collector = _Collector(options.find_machines)
    report = check_paths([folder], options.check_options, progress=progress, on_release=collector)
    local_versions: dict[NormalizedName, set[Version]] = {}
    for release in collector.releases:
        local_versions.setdefault(release.name, set()).add(release.version)
    return report + _pin_report(collector.releases, [], local_versions, options)


def _unhashed_files(page: ProjectPage) -> Iterator[Finding]:
    """Yield a finding about files of a project that are listed without a hash."""
    unhashed = sorted(file.filename for file in page.files if not file.hashes)
    if unhashed:
        counts = f"{len(unhashed)} of {len(page.files)}"
        message = f"files of {page.name} without a hash ({counts}): {listed_briefly(unhashed)}"
        yield Location(page.source).finding(checks.UNHASHED_FILES, message)


def _pin_report(
    releases: Iterable[ReleaseFacts],
    sources: list[Repository],
    local_versions: Mapping[NormalizedName, set[Version]],
    options: IndexCheckOptions,
) -> Report:
    """Report exact pins of wheels that neither the index nor its upstream has (F-92).

    :param sources: the index, if it is not a folder.
    :param local_versions: the versions in its folder, by project.
    """
    errors: dict[NormalizedName, WheelfitError] = {}
    if options.upstream is not None:
        sources = [*sources, options.upstream]

    def versions(name: NormalizedName) -> set[Version] | None:
        """Return the versions in all sources, as any may meet a pin; None: none has the project."""
        all_versions = local_versions.get(name)
        for source in sources:
            try:
                page = source.project(name)
            except WheelfitError as error:
                errors[name] = error
                continue
            if page is not None:
                all_versions = (all_versions or set()) | _versions(page)
        return all_versions

    pins = _pins_of(releases)
    names = sorted({pin.name for pin in pins})
    with ThreadPoolExecutor(_MAX_PROJECTS * 2) as pool:
        versions_of = dict(zip(names, pool.map(versions, names), strict=True))
    findings = [
        Location(where, "METADATA").finding(checks.UNMET_PIN, reason, severity=severity)
        for pin, wheels in pins.items()
        if pin.name not in errors
        for reason, severity in _unmet_reasons(
            pin, versions_of[pin.name], has_upstream=options.upstream is not None
        )
        for where in wheels
    ]
    unchecked = [UncheckedTarget.from_error(error, name) for name, error in errors.items()]
    return Report.of(findings, unchecked)


def _versions(page: ProjectPage) -> set[Version]:
    return {
        version
        for (project, version), files in listed_releases(page.files).items()
        if project == page.name and (files.wheels or files.has_source)
    }


def _pins_of(releases: Iterable[ReleaseFacts]) -> dict[Requirement, list[str]]:
    """Return every requirement of one exact version, with the wheels that have it.

    Markers and extras are ignored: they do not affect whether the version exists.
    """
    wheels_of: dict[str, dict[str, None]] = {}
    for release in releases:
        for wheel in release.wheels:
            requires_texts = () if wheel.core is None else wheel.core.requires_texts
            for text in requires_texts:
                wheels_of.setdefault(text, {})[wheel.where] = None
    pins: dict[Requirement, dict[str, None]] = {}
    for text, wheels in wheels_of.items():
        if (pin := _pin(text)) is not None:
            pins.setdefault(pin, {}).update(wheels)
    return {pin: list(wheels) for pin, wheels in pins.items()}


def _pin(text: str) -> Requirement | None:
    try:
        requirement = parse_requirement(text, allow_variant_markers=True)
    except InvalidRequirement:
        return None
    if requirement.url or not is_pin(requirement.specifier):
        return None
    return Requirement(requirement.name, specifier=requirement.specifier)


def _unmet_reasons(
    pin: Requirement, versions: set[Version] | None, *, has_upstream: bool
) -> Iterator[tuple[str, Severity | None]]:
    """Yield the reason why a pin cannot be met, with its severity; None: that of the check.

    :param versions: the versions of its project; None: no source has the project.
    :param has_upstream: whether further sources were read.
    """
    if versions is None:
        severity = None if has_upstream else Severity.WARNING
        yield f"{pin} is required, but no source has the project", severity
    elif not any(pin.specifier.contains(version, prereleases=True) for version in versions):
        existing = listed_briefly([*map(str, sorted(versions, reverse=True))])
        have = f"only {existing}" if existing else "no version of it"
        yield f"{pin} is required, but the sources have {have}", None
