"""The fitness of an environment, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.render.findings import finding_lines, summary_line

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.check_environment import FitnessReport


def show_fitness(report: FitnessReport, output: Output) -> None:
    """Print which installed variants fit, and what was found."""
    output.result_json(report.to_json())
    verbose = output.verbosity > 0
    for one in report.variants:
        if one.fits and verbose:
            output.result(f"  fits    {one.variant}", "dim")
    for finding in report.findings:
        if verbose or finding.severity != "note":
            for line, style in finding_lines(finding):
                output.result(line, style)
    fitting = sum(one.fits is True for one in report.variants)
    output.note(f"{fitting} of {len(report.variants)} installed variants fit {report.machine.name}")
    output.result(*summary_line(report.findings, verbose=verbose))
