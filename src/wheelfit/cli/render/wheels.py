"""Reports of wheels that were written anew, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.rewriting import RewriteReport

FAILURES = 9
"""The exit code when some wheels could not be written, and the others were."""
LOSSES = 32
"""The exit code when something was lost, with consent (F-56)."""


def show_rewrite(report: RewriteReport, output: Output) -> int:
    """Print the results, and return the exit code."""
    output.result_json(report.to_json())
    for wheel in report.wheels:
        if not wheel.is_new:
            output.say(f"{wheel.source}: there is nothing to do", "dim")
            continue
        output.result(str(wheel.path), "good")
        for text in wheel.notes:
            output.say(f"  {text}")
    if report.failed and not output.json:
        for _, error in report.failed:
            output.error(error)
        left = count_of(len(report.failed), "wheel")
        output.say(f"{left} could not be done; the others are there", "bad")
    if report.dry_run:
        output.say("nothing was written: this was a dry run", "dim")
    if report.failed:
        return FAILURES
    return LOSSES if report.lost else 0
