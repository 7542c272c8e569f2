"""Steps of the demonstration, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.render.explanations import print_explanation

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.demo import DemoStep


def show_step(step: DemoStep, output: Output) -> None:
    """Print a step, or what came of it."""
    if step.line:
        output.result(f"  {step.line}")
        return
    output.result()
    if step.explained is not None:
        machine, explanation = step.explained
        print_explanation(explanation, machine, output)
    else:
        output.result(step.title, "strong")
