"""Edits of the table of a project, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit.building.provider_guide import Guide
    from wheelfit.cli.output import Output, Style
    from wheelfit.operations.init import InitReport


def show_guides(guides: Sequence[Guide], output: Output) -> None:
    """Print what is known of namespaces."""
    output.result_json({"version": 1, "namespaces": [one.to_mapping() for one in guides]})
    for guide in guides:
        for line in guide.lines():
            output.result(line)
        output.result()


def show_edits(report: InitReport, output: Output, *, is_diff_shown: bool = False) -> None:
    """Print what was written, or would be.

    :param report: the edits.
    :param output: receives the lines.
    :param is_diff_shown: whether the difference was printed before.
    """
    output.result_json(report.to_json())
    if not report.is_changed:
        output.result(f"{report.path} says that already", "good")
        return
    if not is_diff_shown:
        show_diff(report.diff, output)
    if not report.is_written:
        output.result("nothing is written")
        return
    output.result(f"{report.path} is written", "good")
    if report.has_variants:
        output.say("wheelfit build --all builds the variants it names", "dim")


def show_diff(diff: Sequence[str], output: Output) -> None:
    """Print the lines of a difference."""
    styles: dict[str, Style] = {"+": "good", "-": "bad", "@": "dim"}
    for line in diff:
        output.result(line, styles.get(line[:1], "plain"))
