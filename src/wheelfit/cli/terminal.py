"""The width of terminals, and paragraphs that fit into it."""

from __future__ import annotations

import os
import sys

_MOST_DIGITS = 6
WIDEST_TEXT = 100
"""Columns of a paragraph at most: longer lines are hard to read."""


def terminal_width() -> int:
    """Return the width of the terminal, as `shutil.get_terminal_size`."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and len(named) < _MOST_DIGITS and int(named):
        return int(named)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def fill_paragraphs(text: str, width: int) -> str:
    """Return paragraphs broken anew; indented ones stay.

    :param text: paragraphs, with an empty line between them.
    :param width: columns.
    """
    from textwrap import fill

    width = min(width, WIDEST_TEXT)
    parts = (
        part if part.startswith(" ") else fill(part, width, break_on_hyphens=False)
        for part in text.split("\n\n")
    )
    return "\n\n".join(parts)
