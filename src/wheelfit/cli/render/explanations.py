"""Explanations of choices, and the steps of the demonstration, as text."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wheelfit.cli.output import Output, Style
    from wheelfit.core.selection import Verdict
    from wheelfit.core.target import TagPreference
    from wheelfit.operations.demo import DemoStep
    from wheelfit.operations.explain import ExplainReport
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.explain import Explanation


_STYLES: dict[str, Style] = {"chosen": "good", "compatible": "plain", "rejected": "dim"}


def show_explanations(report: ExplainReport, output: Output) -> None:
    """Print the choice for a machine, and the reasons."""
    for warning in report.warnings:
        output.warn(warning)
    output.result_json(report.to_json())
    for agreement in report.agreements:
        if agreement.forced.reasons or (agreement.values and output.verbosity > 0):
            output.folded(str(agreement), "strong")
            output.result()
    for number, explanation in enumerate(report.explanations):
        if number:
            output.result()
        print_explanation(explanation, report.machine, output)
    more = " (with --with-deps what they need is looked at too)" if not report.with_deps else ""
    for wish in report.idle_wishes:
        output.warn(f"{wish} is required, but no package has a variant with it{more}")


def print_explanation(explanation: Explanation, machine: ChosenMachine, output: Output) -> None:
    """Print the wheel that is chosen, its properties, and why each other wheel is not."""
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
            output.folded(f"  {'' if number else 'properties':<12}{line}", hang=12)
    for project, value, known in explanation.built_for:
        how = "is chosen together with it" if known is None else f"{known.version} {known.how}"
        output.folded(f"  {'built for':<12}{project} {value} ({project} {how})")
    if output.verbosity > 0:  # P-21; probe shows the evidence
        for detection in explanation.detections:
            output.result(
                f"  {detection.namespace:<11} {detection.status}: {detection.source}", "dim"
            )
    rows = list(_rows(explanation, machine.target.tags, output))
    rows += [("rejected", "source", f"{name}: {why}") for name, why in explanation.sources]
    width = max((len(who) for _, who, _ in rows), default=0)
    for verdict, who, reason in rows:
        # A reason may be long; its lines stay together under their own margin.
        head = f"  {verdict:<12}{who:<{width}}  "
        output.folded(f"{head}{reason}", _STYLES[verdict], len(head) - 2)
    for warning in explanation.warnings:
        output.warn(warning)
    for note in explanation.notes:
        output.say(f"  note: {note}", "dim")


def _who(explanation: Explanation, verdict: Verdict) -> str:
    if verdict.filename.text in explanation.unbuilt:
        return "source"
    return verdict.filename.label or "plain wheel"


def _rows(
    explanation: Explanation, tags: TagPreference, output: Output
) -> Iterator[tuple[str, str, str]]:
    """Yield verdict, label and reason of each wheel; wheels for other systems are counted."""
    verdicts, who_is = explanation.candidates, partial(_who, explanation)
    if output.verbosity > 0:
        for one in verdicts:
            yield one.verdict, who_is(one), f"{explanation.shown(one.filename)}: {_reason(one)}"
        return
    # A release may have hundreds of wheels for other Pythons and platforms. A label with wheels for
    # this one is named with those; another label is named once.
    ours = [one for one in verdicts if tags.best(one.filename.tags) is not None]
    others = [one for one in verdicts if tags.best(one.filename.tags) is None]
    named = {who_is(our) for our in ours}
    yield from _counted(ours, who_is)
    for who, group in groupby(sorted(others, key=who_is), key=who_is):
        wheels = list(group)
        if who not in named:
            count = f"all {len(wheels)} wheels are for others: " if len(wheels) > 1 else ""
            yield "rejected", who, count + _reason(wheels[0])
    rest = sum(who_is(one) in named for one in others)
    if rest:
        what = "1 wheel is" if rest == 1 else f"{rest} wheels are"
        yield "rejected", "others", f"{what} for other Pythons or platforms (-v names them)"


def _counted(
    verdicts: Iterable[Verdict], who_is: Callable[[Verdict], str]
) -> Iterator[tuple[str, str, str]]:
    """Yield rows of wheels; several in a row of one label that share a reason are one row."""
    groups = groupby(verdicts, key=lambda one: (one.verdict, who_is(one), _reason(one)))
    for (verdict, who, reason), group in groups:
        number = len(list(group))
        yield verdict, who, f"{number} wheels: {reason}" if number > 1 else reason


def _reason(verdict: Verdict) -> str:
    return verdict.reason.removeprefix(f"{verdict.verdict}; ")


def show_step(step: DemoStep, output: Output) -> None:
    """Print a step, or its result."""
    if step.line:
        output.folded(f"  {step.line}", hang=0)
        return
    output.result()
    if step.explained is not None:
        print_explanation(step.explained.explanations[0], step.explained.machine, output)
    else:
        output.result(step.title, "strong")
