"""Reports of converted indexes, as text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wheelfit.cli.render.check import FAULTS, show_findings
from wheelfit.cli.render.wheels import LOSSES
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.convert_index import ConvertedIndex


def show_converted_index(report: ConvertedIndex, output: Output) -> int:
    """Print what was read, written and lost; 9 if something was left out, 32 for losses."""
    output.result_json(report.to_json())
    generated = report.generated
    if generated.refused:
        show_findings(report.refused, output)
    for text in report.lost:
        output.result(f"lost: {text}", "warning")
    documents = report.documents
    layouts = Counter(documents.values())
    told = ", ".join(f"{layouts[layout]} of layout {layout}" for layout in sorted(layouts))
    output.result(f"{count_of(len(documents), 'index file')} read" + (f" ({told})" if told else ""))
    for old, new in report.rewritten.items():
        output.result(f"  {old} → {new}" if old != new else f"  {old} is written anew")
    if generated.is_published:
        what = count_of(len(report.projects), "project")
        output.result(f"{report.target}/simple/: {what}; {len(generated.written)} written", "good")
    else:
        output.result("nothing is published; --keep-going publishes the rest", "bad")
    if generated.refused:
        return FAULTS
    return LOSSES if report.lost else 0
