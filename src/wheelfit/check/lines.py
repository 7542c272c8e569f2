"""Say on which line of a JSON document a place is, for editors and review tools."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from wheelfit.core.strict_json import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.check.findings import Finding

__all__ = ["line_numbers", "with_lines"]


def __dir__() -> list[str]:
    return __all__


_SIGN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|\n|[^\s\[\]{},:"]++')
_SIMPLE = re.compile(r'"[A-Za-z0-9_$.-]*+"')


def line_numbers(data: bytes) -> dict[str, int]:
    r"""Return the line of every key and element, by path; nothing if it is no JSON.

    >>> line_numbers(b'{"variants":\n {"null": {}}}')["variants.null"]
    2

    :param data: the document; its depth and size were checked before.
    """
    try:
        text = data.decode("utf-8")
        json.loads(text)
    except (ValueError, RecursionError):
        return {}
    lines: dict[str, int] = {"": 1}
    line = 1
    # One entry per open container: the step into it that was taken last.
    steps: list[str | int] = []
    awaits_key = False
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
            lines.setdefault(path_of(*steps), line)
        else:  # a value begins
            if steps and isinstance(steps[-1], int):
                lines.setdefault(path_of(*steps), line)
            if sign == "{":
                steps.append("")
                awaits_key = True
            elif sign == "[":
                steps.append(0)
    return lines


def with_lines(findings: Iterable[Finding], data: bytes) -> list[Finding]:
    """Return findings in a document with their lines.

    :param findings: all in the same document.
    :param data: the document.
    """
    listed = list(findings)
    if not any(one.path for one in listed):
        return listed
    lines = line_numbers(data)
    return [replace(one, line=_line(one.path, lines)) for one in listed]


def _line(path: str, lines: dict[str, int]) -> int | None:
    """Return the line of a place; of what is missing, the line of where it should be."""
    while path:
        if path in lines:
            return lines[path]
        cut = max(path.rfind("."), path.rfind("["))
        path = path[: max(cut, 0)]
    return lines.get("")
