"""Checks of a whole index: its projects, its exact pins, and the reach of its variants."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedFile, Count, Report, Severity, Unchecked, some_of
from wheelfit.checking.indexes.reachability import reach_findings
from wheelfit.checking.pages import sort_files
from wheelfit.checking.targets.paths import check_paths
from wheelfit.checking.targets.projects import check_project
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.core.index_metadata import combine, contradictions
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.errors import InvalidRequirement
from wheelfit.resolution.version_set import is_pin
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.findings import Finding
    from wheelfit.checking.indexes.reachability import Machines
    from wheelfit.checking.releases import ReleaseFacts
    from wheelfit.core.document import VariantDocument
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.repository import Repository


_AT_ONCE = 4
"""Projects at the same time; each requests several files at once."""


@dataclass(frozen=True, slots=True)
class IndexCheckOptions:
    """The options of an index check."""

    machines: Machines
    """Yields the machines that differ in properties of a document."""
    upstream: Repository | None = None
    """Further sources of its packages."""
    options: CheckOptions = CheckOptions()


@dataclass(slots=True)
class _Collector:
    """The releases that were checked, from several threads."""

    machines: Machines
    releases: list[ReleaseFacts] = field(default_factory=list)

    def __call__(self, release: ReleaseFacts) -> Iterator[Finding]:
        """Add a release, and yield findings about unreachable variants."""
        self.releases.append(release)
        document = _document_of(release)
        if document is not None:
            yield from reach_findings(release, document, self.machines)


def _document_of(release: ReleaseFacts) -> VariantDocument | None:
    """Return the combined document of a release; None if there is none, or a contradiction."""
    for files in (release.index_files, release.variants):
        given = [(file.where, file.document) for file in files if file.document is not None]
        if given:
            return None if contradictions(given) else combine(given)
    return None


def check_index(
    repository: Repository,
    projects: Sequence[NormalizedName],
    demands: IndexCheckOptions,
    *,
    now: datetime,
    progress: Progress = NO_PROGRESS,
) -> Report:
    """Check every release of every project of an index."""
    collector = _Collector(demands.machines)
    report = Report()

    def check(name: NormalizedName) -> Report:
        with suppress(WheelfitError):  # that is another matter, which `check_project` reports
            page = repository.project(name)
            if page is None:
                message = f"{name} is in the list of projects, and has no page"
                lost = CheckedFile(repository.name).found(checks.STRANGE_ANSWER, message)
                return Report.of([lost], (), Count())
        done = check_project(
            repository,
            name,
            SpecifierSet(),
            now=now,
            options=demands.options,
            everything=True,
            seen=collector,
        )
        return done + Report.of(_unhashed(repository, name), (), Count())

    progress.start(len(projects))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for one in pool.map(check, projects):
            report += one
            progress.advance(1)
    progress.done()
    sources = [repository, *filter(None, [demands.upstream])]
    return report + _pin_report(collector.releases, sources, {}, demands)


def check_index_folder(
    folder: Path, demands: IndexCheckOptions, *, progress: Progress = NO_PROGRESS
) -> Report:
    """Check a folder of wheels, or a local index."""
    collector = _Collector(demands.machines)
    report = check_paths([folder], demands.options, progress=progress, seen=collector)
    here: dict[NormalizedName, set[Version]] = {}
    for release in collector.releases:
        here.setdefault(release.name, set()).add(release.version)
    sources = [*filter(None, [demands.upstream])]
    return report + _pin_report(collector.releases, sources, here, demands)


def _unhashed(repository: Repository, name: NormalizedName) -> Iterator[Finding]:
    """Yield a finding about files of a project that are listed without a hash."""
    try:
        page = repository.project(name)
    except WheelfitError:
        return  # `check_project` reports it
    files = () if page is None else page.files
    without = sorted(file.filename for file in files if not file.hashes)
    if page is not None and without:
        message = f"{len(without)} of {len(files)} files of {name} have no hash: "
        yield CheckedFile(page.source).found(checks.UNHASHED_FILES, message + some_of(without))


def _pin_report(
    releases: Iterable[ReleaseFacts],
    sources: Iterable[Repository],
    here: Mapping[NormalizedName, set[Version]],
    demands: IndexCheckOptions,
) -> Report:
    """Report exact pins of wheels that no source has (F-92)."""
    unsure: dict[NormalizedName, WheelfitError] = {}

    def versions(name: NormalizedName) -> set[Version] | None:
        """Return the versions in all sources, as any may meet a pin; None: none has the project."""
        known_versions = here.get(name)
        for source in sources:
            try:
                page = source.project(name)
            except WheelfitError as error:
                unsure[name] = error
                continue
            if page is not None:
                known_versions = (known_versions or set()) | _versions(page)
        return known_versions

    pins = _pins_of(releases)
    names = sorted({pin.name for pin in pins})
    with ThreadPoolExecutor(_AT_ONCE * 2) as pool:
        known = dict(zip(names, pool.map(versions, names), strict=True))
    findings = [
        CheckedFile(where, "METADATA").found(checks.UNMET_PIN, reason, severity=severity)
        for pin, wheels in pins.items()
        if pin.name not in unsure
        for reason, severity in _unmet(pin, known[pin.name], elsewhere=demands.upstream is not None)
        for where in wheels
    ]
    unchecked = [Unchecked.because(error, name) for name, error in unsure.items()]
    return Report.of(findings, unchecked, Count())


def _versions(page: ProjectPage) -> set[Version]:
    return {
        version
        for (owner, version), listed in sort_files(page.files).items()
        if owner == page.name and (listed.wheels or listed.has_source)
    }


def _pins_of(releases: Iterable[ReleaseFacts]) -> dict[Requirement, list[str]]:
    """Return every requirement of one exact version, with the wheels that have it.

    Markers and extras are left out: they do not affect its availability.
    """
    wheels_of: dict[str, dict[str, None]] = {}
    for release in releases:
        for wheel in release.wheels:
            for text in () if wheel.core is None else wheel.core.requires_texts:
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


def _unmet(
    pin: Requirement, versions: set[Version] | None, *, elsewhere: bool
) -> Iterator[tuple[str, Severity | None]]:
    """Yield the reason why a pin cannot be met, with its severity.

    :param versions: of its project; None: no source has it.
    :param elsewhere: whether other sources than the index were read.
    """
    if versions is None:
        severity = None if elsewhere else Severity.WARNING
        yield f"{pin} is required, and no source that was asked has it", severity
    elif not any(pin.specifier.contains(version, prereleases=True) for version in versions):
        nearest = some_of([*map(str, sorted(versions, reverse=True))]) or "nothing"
        yield f"{pin} is required, and there is only {nearest}", None
