"""The matrix of a project, as a table or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.text import columns
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.matrix import MatrixReport


def show_matrix(report: MatrixReport, output: Output) -> None:
    """Print the wheels of each Python and platform."""
    output.result_json(report.to_json())
    rows: dict[tuple[str, str], list[str]] = {}
    for job in report.jobs:
        rows.setdefault((job.platform, job.python), []).append(job.label or "(plain)")
    cells = [(*target, ", ".join(labels)) for target, labels in rows.items()]
    for line in columns(("Platform", "Python", "Wheels"), cells):
        output.result(line)
    output.say(f"{count_of(len(report.jobs), 'wheel')} of {report.name}")
