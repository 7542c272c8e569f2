"""Find everything that is wrong with wheels: the same as `wheelfit check`, by another name."""

from __future__ import annotations

from wheelfit.cli.commands.check import OPTIONS, run

__all__ = ["OPTIONS", "run"]
