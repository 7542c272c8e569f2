"""The report of releases that can be joined as variants of one project, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.building.repack.joining import FamilyProject, JoinedRelease
    from wheelfit.cli.output import Output
    from wheelfit.operations.repack_plan import RepackPlan


NOTHING_TO_JOIN = 9
"""The exit code when no release can be joined."""


def show_plan(report: RepackPlan, output: Output) -> int:
    """Print the versions, the content of the joined release, and the command that joins it."""
    head = ("Release", *(project.name for project in report.projects), f"As {report.name}")
    output.table(head, [tuple(_row(release, report)) for release in report.releases])
    newest = report.newest
    if newest is None:
        output.result(f"these projects have no release that can be joined as {report.name}", "bad")
        for note in report.notes():
            output.remark(note)
        return NOTHING_TO_JOIN
    output.result("")
    output.result(f"{report.name} {newest.version}:", "good")
    for project, version in newest.parts:
        label = "plain" if project.label is None else f"label {project.label}"
        output.result(f"  {project.name} {version}: {label}, {_condition(project)}")
    targets = newest.targets().items()
    names = [project.name for project, _ in newest.parts]
    rows = [
        (*target, *("yes" if name in supporting else "no" for name in names))
        for target, supporting in targets
    ]
    output.result("")
    output.table(("Python", "Platform", *names), rows)
    output.result("")
    for difference in newest.differences:
        output.result(f"{difference.message}{f' ({difference.rule})' if difference.rule else ''}")
    for note in report.notes():
        output.result(note)
    output.result("repack.toml:")
    for line in report.config.splitlines():
        output.result(f"  {line}".rstrip())
    output.result(report.command)
    return 0


def _condition(project: FamilyProject) -> str:
    if project.label is None:
        return "for all machines"
    if project.properties is None:
        return "properties unknown: `wheelfit wheel inspect` proposes some"
    return f"needs {project.properties}"


def _row(release: JoinedRelease, report: RepackPlan) -> Iterator[str]:
    yield str(release.version)
    versions = {project.name: version for project, version in release.parts}
    for project in report.projects:
        version = versions.get(project.name)
        if version is None:
            yield "-"
            continue
        count = count_of(len(project.releases[version]), "wheel")
        yield count if version == release.version else f"{version}: {count}"
    yield f"no: {'; '.join(release.obstacles)}" if release.obstacles else "yes"
