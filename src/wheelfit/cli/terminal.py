"""The width of terminals, and paragraphs that fit into it."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_MAX_DIGITS = 5
MAX_TEXT_WIDTH = 100
"""Columns of a paragraph at most: longer lines are hard to read."""


_MIN_WIDTH = 20
_MIN_HANGING_WIDTH = 24
"""The least columns that an indent leaves for text."""
_UNBROKEN = re.compile(r"`[^`]*`| :: ")
"""Commands and properties, which stay in one line."""


def terminal_width(stream: TextIO | None = None) -> int:
    """Return the width of the terminal, as `shutil.get_terminal_size`.

    :param stream: the terminal; None: standard output. What is no terminal has 80 columns.
    """
    if (width := variable_width()) is not None:
        return width
    try:
        return os.get_terminal_size((stream or sys.__stdout__).fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def variable_width() -> int | None:
    """Return the width in the variable ``COLUMNS``; None if that is not a number."""
    columns = os.environ.get("COLUMNS", "")
    is_number = columns.isdecimal() and len(columns) <= _MAX_DIGITS
    return (int(columns) or None) if is_number else None


def fold(text: str, width: int | None, hang: int = 0) -> str:
    """Return text whose long lines are broken between words.

    :param text: one or several lines; text between backticks is not broken.
    :param width: columns; None breaks nothing.
    :param hang: columns by which further lines are indented more than the first.
    """
    if width is None or len(text) <= width:
        return text
    return "\n".join(_folded(line, max(width, _MIN_WIDTH), hang) for line in text.split("\n"))


def _folded(line: str, width: int, hang: int) -> str:
    if len(line) <= width:
        return line
    from textwrap import fill

    words = line.lstrip(" ")
    indent = line[: len(line) - len(words)]
    if len(indent) + hang > width - _MIN_HANGING_WIDTH:
        hang = 2
    filled = fill(
        _UNBROKEN.sub(lambda match: match[0].replace(" ", "\xa0"), words),
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled.replace("\xa0", " ")


def fill_paragraphs(text: str, width: int) -> str:
    """Return paragraphs wrapped to a width; indented ones are not changed.

    :param text: paragraphs, with an empty line between them.
    :param width: columns.
    """
    from textwrap import fill

    width = min(width, MAX_TEXT_WIDTH)
    parts = (
        part if part.startswith(" ") else fill(part, width, break_on_hyphens=False)
        for part in text.split("\n\n")
    )
    return "\n\n".join(parts)
