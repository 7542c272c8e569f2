"""Changes of the dependencies of a project, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.render.changes import show_change
from wheelfit.cli.render.locks import show_lock

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.dependencies import DependencyReport


def show_dependencies(report: DependencyReport, output: Output) -> None:
    """Print the edits, the lock and the installation, done or planned."""
    for change in report.changes:
        output.report(_line(change.before, change.after, report))
    if report.dry_run and output.verbosity >= 0:
        for line in report.diff:
            output.result(line)
    if report.lock is not None:
        show_lock(report.lock, output)
    if report.environment is not None:
        show_change(report.environment, output)


def _line(before: str | None, after: str | None, report: DependencyReport) -> str:
    place = f"{report.edited_list} in {report.project}"
    if before == after:
        return f"{after} is already in {place}"
    if after is None:
        verb = "would remove" if report.dry_run else "removed"
        return f"{verb} {before} from {place}"
    if before is None:
        verb = "would add" if report.dry_run else "added"
        return f"{verb} {after} to {place}"
    verb = "would replace" if report.dry_run else "replaced"
    return f"{verb} {before} with {after} in {place}"
