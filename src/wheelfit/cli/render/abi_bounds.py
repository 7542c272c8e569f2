"""Bounds derived from symbols, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.operations.abi_bounds import verdict_in_words
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.cli.output import Output
    from wheelfit.operations.abi_bounds import AbiBoundsReport


def show_bounds(report: AbiBoundsReport, output: Output) -> None:
    """Print the releases with which something works."""
    output.result_json(report.to_json())
    for line in _lines(report):
        output.result(line)
    for note in report.found.notes:
        output.say(f"note: {note}")


def _lines(report: AbiBoundsReport) -> Iterator[str]:
    bounds, feature = report.found.bounds, report.feature
    count = len(bounds.symbols)
    yield (
        f"{report.consumer.name} uses {count_of(count, 'symbol')} of {', '.join(bounds.libraries)}"
    )
    for one in bounds.releases:
        yield f"  {verdict_in_words(one)}"
    if feature:
        yield "properties:"
        yield from (f"  {report.namespace} :: {feature} :: {value}" for value in bounds.values)
        yield f"requirement: {report.project}{bounds.requirement}"
    else:
        yield f"values: {', '.join(bounds.values)}"
        yield f"versions: {bounds.requirement}"
