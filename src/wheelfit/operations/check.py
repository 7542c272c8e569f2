"""Checks of wheels, index files, folders of them, and published projects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelfit.checking.checks import CHECKS
from wheelfit.checking.findings import Report
from wheelfit.checking.tool_profiles import CheckOptions, Profile, with_profile_severities
from wheelfit.errors import UsageError, did_you_mean
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import SourceOptions, ValidatedRequest, WorkerOptions
from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from wheelfit.core.requirements import Requirement
    from wheelfit.operations.context import Context


class FindingOptions(ValidatedRequest):
    """The checks that count, and how strictly."""

    profile: tuple[str, ...] = ()
    strict: bool = False
    ignore: tuple[str, ...] = ()


class CheckRequest(FindingOptions, WorkerOptions, SourceOptions):
    """The targets of a check, and its depth."""

    targets: tuple[str, ...] = ()
    full: bool = False
    binaries: bool = False
    instructions: bool = False


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The findings of a check, and its arguments."""

    findings: Report
    targets: tuple[str, ...]
    """As the user wrote them."""
    profiles: tuple[str, ...]
    full: bool

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        report = self.findings
        counts = plain_fields(report.counts, "wheels index_files releases")
        severities = report.severity_counts().items()
        return plain_report(
            report,
            "findings unchecked",
            targets=[redact(target) for target in self.targets],
            profiles=sorted(set(self.profiles)),
            full=self.full,
            checked=counts,
            summary={f"{severity}s": number for severity, number in severities},
        )

    def to_sarif(self) -> dict[str, Any]:
        """Return the findings as a SARIF log, with paths below the current folder."""
        from wheelfit.checking.sarif import to_sarif

        return to_sarif(self.findings, folder=Path.cwd())


def check(request: CheckRequest, context: Context) -> CheckReport:
    """Check targets, and return every finding.

    :param request: the targets, and the checks and profiles that apply.
    :param context: the environment variables and the reporter.
    :raises UsageError: no target is given, or a check or profile is unknown.
    """
    check_ignored(request.ignore)
    if not request.targets:
        raise UsageError(
            "no target was given",
            hint="name a TARGET; `wheelfit doctor` checks installed packages",
        )
    profiles = named_profiles(request.profile)
    report = with_profile_severities(_check(request, profiles, context), profiles)
    report = report.without(request.ignore)
    return CheckReport(report, request.targets, request.profile, request.full)


def check_ignored(codes: Iterable[str], further: Collection[str] = ()) -> None:
    """Raise on unknown names of checks.

    :param further: names that are valid besides those of `wheelfit check`.
    :raises UsageError: there is no such check.
    """
    valid = {*CHECKS, *further}
    for code in codes:
        if code not in valid:
            hint = did_you_mean(code, valid, "`wheelfit check` prints the code of each finding")
            raise UsageError(f"unknown check {code!r}", hint=hint)


def named_profiles(names: Collection[str]) -> frozenset[Profile]:
    """Return profiles by their names.

    :raises UsageError: there is no such profile.
    """
    profiles = {profile.value: profile for profile in Profile}
    for name in names:
        if name not in profiles:
            raise UsageError(f"unknown profile {name!r}", hint=f"one of {', '.join(profiles)}")
    return frozenset(profiles[name] for name in names)


def _check(request: CheckRequest, profiles: frozenset[Profile], context: Context) -> Report:
    from wheelfit.checking.targets.paths import check_paths
    from wheelfit.operations.executors import open_wheel_mapper
    from wheelfit.operations.targets import named_project

    paths: list[Path] = []
    urls: list[str] = []
    projects: list[Requirement] = []
    for text in request.targets:
        if text.startswith(("https://", "http://")):
            urls.append(text)
        elif (project := named_project(text, request)) is not None:
            projects.append(project)
        else:
            paths.append(Path(text))
    binaries = request.binaries or request.instructions
    options = CheckOptions(request.full, binaries, request.instructions, profiles)
    report = Report()
    if paths:
        with (
            open_wheel_mapper(request) as map_wheels,
            context.reporter.work("checking") as progress,
        ):
            report += check_paths(paths, options, progress=progress, map_wheels=map_wheels)
    if urls or projects:
        report += _check_published(request, context, urls, projects, options)
    return report


def _check_published(
    request: CheckRequest,
    context: Context,
    urls: Sequence[str],
    projects: Sequence[Requirement],
    options: CheckOptions,
) -> Report:
    from wheelfit.checking.targets.projects import check_project, check_url
    from wheelfit.operations.indexes import open_indexes, read_settings

    settings = read_settings(request, context.environ)
    report = Report()
    with open_indexes(request, settings, context, urls) as repository:
        for url in urls:
            report += check_url(repository, url, options)
        for project in projects:
            with context.reporter.work(project.name) as progress:
                report += check_project(
                    repository,
                    project.name,
                    project.specifier,
                    now=datetime.now(UTC),
                    options=options,
                    progress=progress,
                )
    return report
