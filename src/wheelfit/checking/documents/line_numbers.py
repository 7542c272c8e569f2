"""Say on which line of a JSON document a place is, for editors and review tools."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.core.strict_json import path_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wheelfit.checking.findings import Finding

_SIGN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|\n|[^\s\[\]{},:"]++')
_DEEPEST = 64
"""Far below what any document may have; the path of a place grows with its depth."""
_SIMPLE = re.compile(r'"[A-Za-z0-9_$.-]*+"')


def line_numbers(data: bytes, wanted: Collection[str] = ()) -> dict[str, int]:
    r"""Return the line of every key and element, by path.

    What is not JSON is read as far as it looks like some.

    >>> line_numbers(b'{"variants":\n {"null": {}}}')["variants.null"]
    2

    :param wanted: paths; when all of them are found, the rest is not read. Empty: read all.
    """
    lines: dict[str, int] = {"": 1}
    with suppress(ValueError, IndexError):
        _number(data.decode("utf-8"), lines, set(wanted))
    return lines


def _number(text: str, lines: dict[str, int], missing: set[str]) -> None:
    """Go through a text, and fill in lines until nothing is missing."""
    read_all = not missing
    line = 1
    # One entry per open container: the step into it that was taken last.
    steps: list[str | int] = []
    awaits_key = False

    def arrive() -> None:
        path = path_of(*steps)
        lines.setdefault(path, line)
        missing.discard(path)

    for match in _SIGN.finditer(text):
        sign = match[0]
        if sign == "\n":
            line += 1
        elif sign in "]}":
            steps.pop()
            awaits_key = False
        elif sign == ",":
            last = steps[-1]
            awaits_key = isinstance(last, str)
            if isinstance(last, int):
                steps[-1] = last + 1
        elif sign == ":":
            awaits_key = False
        elif awaits_key:
            steps[-1] = sign[1:-1] if _SIMPLE.fullmatch(sign) else json.loads(sign)
            arrive()
        else:  # a value begins
            if steps and isinstance(steps[-1], int):
                arrive()
            if sign == "{":
                steps.append("")
                awaits_key = True
            elif sign == "[":
                steps.append(0)
        if len(steps) > _DEEPEST or not (read_all or missing):
            return


def with_lines(findings: Iterable[Finding], data: bytes) -> list[Finding]:
    """Return findings in a document with their lines."""
    listed = list(findings)
    if not any(one.path for one in listed):
        return listed
    lines = line_numbers(data, {one.path for one in listed if one.path})
    return [replace(one, line=_line(one.path, lines)) for one in listed]


def _line(path: str, lines: dict[str, int]) -> int | None:
    """Return the line of a place; of what is missing, the line of where it should be."""
    while path:
        if path in lines:
            return lines[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[: max(cut, 0)]
    return lines.get("")
