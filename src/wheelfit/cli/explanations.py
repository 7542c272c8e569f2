"""Explanations as people read them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output
    from wheelfit.core.selection import Verdict
    from wheelfit.resolve.explain import Explanation

__all__ = ["print_explanation"]


def __dir__() -> list[str]:
    return __all__


def print_explanation(explanation: Explanation, machine: ChosenMachine, output: Output) -> None:
    """Print the winner, its properties, and why each other wheel lost or was refused.

    :param explanation: what to print.
    :param machine: whom it was chosen for.
    :param output: where to.
    """
    title = f"{explanation.name} {explanation.version or ''}".rstrip()
    if explanation.chosen is None:
        output.result(f"{title}: nothing fits {machine.name}", "bad")
    else:
        output.result(f"{title} for {machine.name}", "strong")
        output.result(f"  chosen  {explanation.chosen.text}", "good")
        for one in explanation.properties:
            output.result(f"            {one}")
    for verdict, shown in _shown(explanation.candidates, output):
        output.result(f"  {verdict:<8}{shown}", "plain" if verdict != "rejected" else "dim")
    for warning in explanation.warnings:
        output.warn(f"{explanation.name}: {warning}")
    for note in explanation.notes:
        output.say(f"  note: {note}", "dim")


def _shown(verdicts: Iterable[Verdict], output: Output) -> Iterator[tuple[str, str]]:
    """Name each wheel with its reason; many that fail for one reason become one line."""
    for (kind, reason, label), group in groupby(
        verdicts, key=lambda one: (str(one.verdict), one.reason, one.filename.label)
    ):
        wheels = list(group)
        if kind == "rejected" and len(wheels) > 1 and output.verbosity <= 0:
            what = f"{len(wheels)} wheels" + (f" labelled {label}" if label else "")
            yield kind, f"{what}: {reason}"
            continue
        for wheel in wheels:
            yield kind, f"{wheel.filename.text}: {reason}"
