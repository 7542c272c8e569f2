"""Text of reports: single lines and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; none when there are no rows.

    :param head: one title for each column.
    :param rows: cells without line breaks; a column without any text is left out.

    >>> columns(("Name", "Empty", "Size"), [("a", "", "10"), ("bcdef", "", "2")])
    ['Name   Size', '-----  ----', 'a      10', 'bcdef  2']
    """
    rows = list(rows)
    kept = [number for number in range(len(head)) if any(row[number] for row in rows)]
    widths = {
        number: max(len(head[number]), *(len(row[number]) for row in rows)) for number in kept
    }
    if not rows:
        return []
    lines = [head, ["-" * widths.get(number, 0) for number in range(len(head))], *rows]
    return [
        "  ".join(f"{line[number]:<{widths[number]}}" for number in kept).rstrip() for line in lines
    ]


def in_one_line(text: str) -> str:
    """Return text of others for a line: it can neither end that nor change its direction.

    :param text: a name or a value.
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
