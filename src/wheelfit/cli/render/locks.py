"""Locks that were written, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.lock import labels_of
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.lock import LockReport


def show_lock(report: LockReport, output: Output) -> None:
    """Print what changed in the locks, and where they are."""
    if output.json:  # a large lock takes a while
        output.result_json(report.to_json())
    for note in report.notes:
        output.warn(note)
    settled = [each for one in report.locks for each in one.host_lock.locked.settled]
    for text in dict.fromkeys(one for each in settled for one in each.solution.resolution.unmet):
        output.note(f"note: {text}")
    for one in report.locks:
        for change in one.changes:
            output.result(str(change))
        for package in one.lock.packages:
            labels = labels_of(package)
            if labels:
                output.result(f"{package.name} {package.version}: {', '.join(labels)}")
    if report.apart is not None:
        output.warn(
            f"one lock cannot be for all of these machines, so each has its own: {report.apart}"
        )
    for one in report.locks:
        packages = count_of(len({package.name for package in one.lock.packages}), "package")
        if one.is_same:
            output.result(f"{one.path} is up to date: {packages} for {one.environments}")
        else:
            verb = "locked" if report.writes else "would lock"
            output.result(f"{verb} {packages} for {one.environments} in {one.path}")
