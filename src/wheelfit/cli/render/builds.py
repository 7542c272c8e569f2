"""Built wheels, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit.building.front_end.orders import BuiltWheel
    from wheelfit.cli.output import Output
    from wheelfit.operations.build import BuildReport

FAILURES = 9
"""The exit code when some jobs failed, and the others are done."""


def show_build(report: BuildReport, output: Output) -> int:
    """Print the wheels that were built, and return the exit code."""
    for warning in report.warnings:
        output.warn(warning)
    wheels = report.by_filename
    for path in report.files:
        wheel = wheels.get(path.name)
        output.result(str(path), "good")
        if wheel is not None and wheel.label is not None:
            output.result(f"  {wheel.properties or 'no properties'}")
            output.result(f"  {_words(wheel)}", "dim")
    output.result_json(report.to_json())
    return _show_jobs(report, output) if report.results else 0


def _words(wheel: BuiltWheel) -> str:
    how = {
        "converted": f"converted from a plain wheel of {wheel.backend}",
        "native": f"built by {wheel.backend} as a variant",
    }
    parts = [how[wheel.how]]
    if wheel.flags:
        parts.append(" ".join(wheel.flags))
    parts += [f"{namespace}: {who}" for namespace, who in wheel.validated.items() if who]
    return "; ".join(parts)


def _show_jobs(report: BuildReport, output: Output) -> int:
    """Print errors of jobs and their counts, and return the exit code."""
    results = report.results
    # One fault of several jobs is shown once, though each process has an error of its own.
    errors = {str(one.error.parts()): one.error for one in results if one.error is not None}
    if not output.json:
        for error in errors.values():
            output.error(error)
    skipped = sorted({one.job.platform for one in results if one.status == "skipped"})
    words = {
        "built": "built",
        "kept": "kept from before",
        "failed": "failed",
        "skipped": f"for other platforms ({', '.join(skipped)})",
    }
    counts = {status: sum(one.status == status for one in results) for status in words}
    parts = [f"{count} {words[status]}" for status, count in counts.items() if count]
    output.say(", ".join(parts), "bad" if counts["failed"] else "good")
    return FAILURES if counts["failed"] else 0
