"""Reports of generated indexes, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.render.check import FAULTS, show_findings
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.generate_index import GeneratedIndex


def show_generated_index(report: GeneratedIndex, output: Output) -> int:
    """Print what was refused and what was published; 9 if anything was refused."""
    generated = report.generated
    output.result_json(report.to_json())
    for note in generated.notes:
        output.warn(note)
    if generated.refused:
        show_findings(report.refused, output)
    if not generated.is_published:
        output.result("nothing is published; --keep-going publishes the rest", "bad")
        return FAULTS
    there = (
        f"{count_of(generated.files, 'file')} of {count_of(generated.releases, 'release')}, "
        f"{count_of(generated.projects, 'project')}"
    )
    if generated.written or generated.removed:
        done = f"{len(generated.written)} written"
        if generated.removed:
            done += f", {len(generated.removed)} removed"
    else:
        done = "nothing has changed"
    output.result(f"{report.target}/simple/: {there}; {done}", "good")
    if generated.left_out:
        output.result(f"left out: {', '.join(generated.left_out)}", "warning")
    if generated.unnamed:
        output.say(
            f"{count_of(generated.unnamed, 'file')} no page names any more; --prune removes what "
            "was so before the last change",
            "dim",
        )
    return FAULTS if generated.refused else 0
