"""Explanations as people read them."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.cli.machine import ChosenMachine
    from wheelfit.cli.output import Output, Style
    from wheelfit.core.selection import Verdict
    from wheelfit.resolve.explain import Explanation

__all__ = ["print_explanation"]


def __dir__() -> list[str]:
    return __all__


_JOINED = "\xa0::\xa0"
"""Keeps a property on one line."""
_STYLES: dict[str, Style] = {"chosen": "good", "compatible": "plain", "rejected": "dim"}


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
        output.result(f"{title} for {machine.name}: {explanation.chosen.text}", "strong")
    if explanation.source:
        output.result(f"  {'from':<12}{explanation.source}", "dim")
    if explanation.properties:
        values = (
            f"{feature} :: {', '.join(some)}" for feature, some in explanation.properties.features()
        )
        for number, line in enumerate(values):
            output.result(f"  {'' if number else 'properties':<12}{line}")
    if output.verbosity > 0:  # P-21; the evidence is what probe shows
        for one in explanation.detections:
            output.result(f"  {one.namespace:<12}{one.status}: {one.source}", "dim")
    width = max((len(_who(one)) for one in explanation.candidates), default=0)
    for verdict, who, reason in _rows(explanation.candidates, output):
        # A reason may be long; its lines stay together under their own margin.
        head = f"  {verdict:<12}{who:<{width}}  "
        text = textwrap.fill(
            reason.replace(" :: ", _JOINED),
            width=max(100, len(head) + 40),
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )
        output.result(text.replace(_JOINED, " :: "), _STYLES[verdict])
    for warning in explanation.warnings:
        output.warn(warning)
    for note in explanation.notes:
        output.say(f"  note: {note}", "dim")


def _who(verdict: Verdict) -> str:
    return verdict.filename.label or "plain wheel"


def _rows(verdicts: tuple[Verdict, ...], output: Output) -> Iterator[tuple[str, str, str]]:
    """Name each wheel with its reason; several of one label that share it become one line."""
    groups = groupby(verdicts, key=lambda one: (str(one.verdict), _who(one), one.reason))
    for (verdict, who, full_reason), group in groups:
        wheels = list(group)
        reason = full_reason.removeprefix(f"{verdict}; ")
        if output.verbosity > 0:
            for wheel in wheels:
                yield verdict, who, f"{wheel.filename.text}: {reason}"
        else:
            count = f"{len(wheels)} wheels: " if len(wheels) > 1 else ""
            yield verdict, who, count + reason
