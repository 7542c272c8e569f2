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
    for agreement in report.agreements:
        is_value_forced = bool(agreement.forced.reasons)
        if is_value_forced or (agreement.values and output.verbosity > 0):
            output.paragraph(str(agreement), "strong")
            output.result()
    for number, explanation in enumerate(report.explanations):
        if number:
            output.result()
        print_explanation(explanation, report.machine, output)
    hint = "" if report.with_deps else " (--with-deps examines their dependencies too)"
    for property_ in report.missing_properties:
        output.warn(f"{property_} is required, but no package has a variant with it{hint}")


def print_explanation(explanation: Explanation, machine: ChosenMachine, output: Output) -> None:
    """Print the chosen wheel, its properties, and the reason for each other wheel."""
    title = f"{explanation.name} {explanation.version or ''}".rstrip()
    if explanation.chosen is None:
        output.result(f"{title}: nothing fits {machine.name}", "bad")
    else:
        output.result(f"{title} for {machine.name}: {explanation.chosen.text}", "strong")
    if explanation.source:
        output.result(f"  {'from':<12}{explanation.source}", "dim")
    if explanation.properties:
        lines = (
            f"{feature} :: {', '.join(values)}"
            for feature, values in explanation.properties.features()
        )
        for number, line in enumerate(lines):
            output.paragraph(f"  {'' if number else 'properties':<12}{line}", hang=12)
    for project, value, known in explanation.built_for:
        # As "torch 2.8.0 is installed", or "torch is chosen together with it".
        state = f"{known.version} {known.state}" if known else "is chosen together with it"
        output.paragraph(f"  {'built for':<12}{project} {value} ({project} {state})")
    if output.verbosity > 0:  # P-21; probe shows the evidence
        for detection in explanation.detections:
            output.result(
                f"  {detection.namespace:<11} {detection.status}: {detection.source}", "dim"
            )
    rows = list(_rows(explanation, machine.target.tags, output))
    rows += [("rejected", "source", f"{name}: {cause}") for name, cause in explanation.sources]
    width = max((len(subject) for _, subject, _ in rows), default=0)
    for verdict, subject, reason in rows:
        # Further lines of a long reason are aligned with its beginning.
        head = f"{verdict:<12}{subject:<{width}}  "
        output.paragraph(f"  {head}{reason}", _STYLES[verdict], len(head))
    for warning in explanation.warnings:
        output.warn(warning)
    for note in explanation.notes:
        output.remark(f"  note: {note}", "dim")


def _subject(explanation: Explanation, verdict: Verdict) -> str:
    if verdict.filename.text in explanation.unbuilt:
        return "source"
    return verdict.filename.label or "plain wheel"


def _rows(
    explanation: Explanation, tags: TagPreference, output: Output
) -> Iterator[tuple[str, str, str]]:
    """Yield verdict, label and reason of each wheel; without -v, wheels for others are counted."""
    verdicts, subject_of = explanation.candidates, partial(_subject, explanation)
    if output.verbosity > 0:
        for verdict in verdicts:
            yield (
                verdict.verdict,
                subject_of(verdict),
                f"{explanation.shown(verdict.filename)}: {_reason(verdict)}",
            )
        return
    # A release may have hundreds of wheels for other Pythons and platforms. They get one row for
    # each label that has no installable wheel, and are only counted for the other labels.
    installable = [verdict for verdict in verdicts if tags.best(verdict.filename.tags) is not None]
    others = [verdict for verdict in verdicts if tags.best(verdict.filename.tags) is None]
    installable_subjects = {subject_of(verdict) for verdict in installable}
    yield from _counted(installable, subject_of)
    for subject, group in groupby(sorted(others, key=subject_of), key=subject_of):
        wheels = list(group)
        if subject not in installable_subjects:
            count = f"all {len(wheels)} wheels are for others: " if len(wheels) > 1 else ""
            yield "rejected", subject, count + _reason(wheels[0])
    other_count = sum(subject_of(verdict) in installable_subjects for verdict in others)
    if other_count:
        count_text = "1 wheel is" if other_count == 1 else f"{other_count} wheels are"
        yield "rejected", "others", f"{count_text} for other Pythons or platforms (-v names them)"


def _counted(
    verdicts: Iterable[Verdict], subject_of: Callable[[Verdict], str]
) -> Iterator[tuple[str, str, str]]:
    """Yield rows of wheels; consecutive ones with the same label and reason are one row."""
    groups = groupby(
        verdicts, key=lambda verdict: (verdict.verdict, subject_of(verdict), _reason(verdict))
    )
    for (verdict, subject, reason), group in groups:
        number = len(list(group))
        yield verdict, subject, f"{number} wheels: {reason}" if number > 1 else reason


def _reason(verdict: Verdict) -> str:
    return verdict.reason.removeprefix(f"{verdict.verdict}; ")


def show_step(step: DemoStep, output: Output) -> None:
    """Print a step, or its result."""
    if step.line:
        output.paragraph(f"  {step.line}", hang=0)
        return
    output.result()
    if step.explained is not None:
        print_explanation(step.explained.explanations[0], step.explained.machine, output)
    else:
        output.result(step.title, "strong")
