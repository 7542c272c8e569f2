"""Releases with all of their labels, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.explain import OverviewReport, tags_in_words
from wheelfit.operations.text import in_one_line
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wheelfit.cli.output import Output
    from wheelfit.resolution.overview import LabelRow, Overview

_MAX_ITEMS = 4
"""Machines, or Pythons and platforms, that a line names without ``--verbose``."""


def show_overviews(report: OverviewReport, output: Output) -> None:
    """Print every label of some releases."""
    for number, overview in enumerate(report.overviews):
        if number:
            output.result()
        _show(overview, output)


def _show(overview: Overview, output: Output) -> None:
    """Print every label: its condition, its wheels, and the machines that would choose it."""
    wheels = sum(len(row.wheels) for row in overview.rows)
    labels = sum(row.label is not None for row in overview.rows)
    if not labels:
        count = count_of(wheels, "plain wheel")
    elif labels < len(overview.rows):
        count = f"{count_of(wheels, 'wheel')}, {count_of(labels, 'label')} and plain wheels"
    else:
        count = f"{count_of(wheels, 'wheel')} of {count_of(labels, 'label')}"
    output.result(f"{overview.name} {overview.version} for all machines: {count}", "strong")
    if overview.source:
        output.result(in_one_line(f"  from {overview.source}"), "dim")
    for row in overview.rows:
        output.result(in_one_line(f"  {row.label or 'plain wheel'}"), "good")
        for title, text in _lines(row, output, has_machines=bool(overview.machines)):
            _print(title, text, output)
    if overview.unmatched_machines:
        _print("no wheel for", _shortened(overview.unmatched_machines, output), output, margin="  ")
    for note in overview.notes:
        output.remark(in_one_line(f"  note: {note}"), "dim")


def _lines(row: LabelRow, output: Output, *, has_machines: bool) -> Iterator[tuple[str, str]]:
    yield "machine", row.condition
    if row.properties:
        yield (
            "properties",
            "; ".join(
                f"{feature} :: {', '.join(values)}" for feature, values in row.properties.features()
            ),
        )
    pythons, platforms = tags_in_words(row)
    yield "built for", f"{_shortened(pythons, output)} on {_shortened(platforms, output)}"
    yield "wheels", ", ".join(filter(None, (str(len(row.wheels)), row.sizes)))
    if output.verbosity > 0:
        for wheel in row.wheels:
            yield "", wheel.filename.text
    if has_machines:
        yield (
            "chosen by",
            _shortened(row.selected_by, output) if row.selected_by else "none of the machines",
        )


def _shortened(items: Sequence[str], output: Output) -> str:
    if len(items) <= _MAX_ITEMS + 1 or output.verbosity > 0:
        return ", ".join(items)
    return f"{', '.join(items[:_MAX_ITEMS])} and {len(items) - _MAX_ITEMS} more"


def _print(title: str, text: str, output: Output, margin: str = "    ") -> None:
    label = f"{margin}{title:<11} "
    output.paragraph(f"{label}{in_one_line(text)}", hang=len(label) - len(margin))
