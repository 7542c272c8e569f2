"""Former place of `wheelfit.cli.render.explanations`."""

from wheelfit.cli.render.explanations import print_explanation

__all__ = ["print_explanation"]
