"""Find the places of a document, for editors and review tools: lines, keys and values."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.checking.checks import BAD_VALUES, CHECKS
from wheelfit.checking.findings import Correction, Region
from wheelfit.core.strict_json import path_of
from wheelfit.core.toml_lines import lines_of, nearest, values_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wheelfit.checking.findings import Finding

_SIGN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|\n|[^\s\[\]{},:"]++')
_DEEPEST = 64
"""Far below any real document; the path of a place grows with its depth."""
_SIMPLE = re.compile(r'"[A-Za-z0-9_$.-]*+"')
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_Span = tuple[int, int]


@dataclass(slots=True)
class DocumentPlace:
    """A key with its value, or an element of a list."""

    line: int
    """The line on which it begins, from 1."""
    key: _Span | None = None
    """The start of the key and the index behind its end; None: an element."""
    value: _Span | None = None
    """Those of the value; None where it was not read to its end."""


def places(data: bytes, wanted: Collection[str] = ()) -> dict[str, DocumentPlace]:
    r"""Return every key and element, by path.

    Invalid JSON is read as far as possible.

    >>> places(b'{"variants":\n {"null": {}}}')["variants.null"]
    Place(line=2, key=(15, 21), value=(23, 25))

    :param wanted: paths; when all of them are found, the rest is not read. Empty: read all.
    """
    by_path = {"": DocumentPlace(1)}
    with suppress(ValueError, IndexError):
        _find(data.decode("utf-8"), by_path, set(wanted))
    return by_path


def _find(text: str, by_path: dict[str, DocumentPlace], missing: set[str]) -> None:
    """Find places in a text until none is missing."""
    read_all = not missing
    line = 1
    # One entry per open container: the last step into it, and its kind.
    steps: list[str | int] = []
    containers: list[tuple[str, int]] = []
    path = ""
    awaits_key = False

    def arrive(key: _Span | None = None) -> str:
        path = path_of(*steps)
        by_path.setdefault(path, DocumentPlace(line, key))
        return path

    def leave(path: str, value: _Span) -> None:
        if by_path[path].value is None:
            by_path[path].value = value
        missing.discard(path)

    for match in _SIGN.finditer(text):
        sign = match[0]
        if sign == "\n":
            line += 1
        elif sign in "]}":
            steps.pop()
            awaits_key = False
            path, start = containers.pop()
            leave(path, (start, match.end()))
        elif sign == ",":
            last = steps[-1]
            awaits_key = isinstance(last, str)
            if isinstance(last, int):
                steps[-1] = last + 1
        elif sign == ":":
            awaits_key = False
        elif awaits_key:
            steps[-1] = sign[1:-1] if _SIMPLE.fullmatch(sign) else json.loads(sign)
            path = arrive(match.span())
        else:  # a value begins
            if steps and isinstance(steps[-1], int):
                path = arrive()
            if sign in "{[":
                containers.append((path, match.start()))
                steps.append("" if sign == "{" else 0)
                awaits_key = sign == "{"
            else:
                leave(path, match.span())
        if len(steps) > _DEEPEST or not (read_all or missing):
            return


def with_places(findings: Iterable[Finding], data: bytes) -> list[Finding]:
    """Return findings in a JSON document with their lines, and with the regions of corrections."""
    listed = list(findings)
    if not any(one.path for one in listed):
        return listed
    renamed = {other for one in listed if (other := _new_path(one)) is not None}
    by_path = places(data, renamed.union(one.path for one in listed if one.path))
    lines = {path: place.line for path, place in by_path.items()}
    text = _Text(data.decode("utf-8", "replace"))
    return [
        _corrected(one._replace(line=nearest(one.path, lines)), by_path, text) for one in listed
    ]


def with_places_in_toml(findings: Iterable[Finding], data: bytes) -> list[Finding]:
    """Return findings in a TOML document with their lines, and with corrections of values."""
    text = _Text(data.decode("utf-8"))
    spans = {path_of(*steps): span for steps, span in values_of(text.content).items()}
    lines = lines_of(text.content)
    placed = []
    for finding in findings:
        correction, span = finding.correction, spans.get(finding.path)
        if correction is not None and span is not None:
            correction = correction._replace(region=text.region(span))
        placed.append(finding._replace(line=nearest(finding.path, lines), correction=correction))
    return placed


def _new_path(finding: Finding) -> str | None:
    """Return a finding's path with the corrected key; None if the key is correct."""
    correction = finding.correction
    if correction is None or not correction.is_of_key:
        return None
    parent, dot, _ = finding.path.rpartition(".")
    return f"{parent}{dot}{json.loads(correction.text)}"


def _corrected(finding: Finding, by_path: dict[str, DocumentPlace], text: _Text) -> Finding:
    """Return a finding whose correction has its region; without one where that has no place."""
    correction, place = finding.correction, by_path.get(finding.path)
    if correction is None and finding.code != BAD_VALUES.code:
        return finding
    span = None
    if place is not None and _new_path(finding) not in by_path:  # a table has each key once
        span = place.key if correction is not None and correction.is_of_key else place.value
    if span is None:
        return _uncorrected(finding)
    correction = correction or _in_order(text.content[slice(*span)])
    correction = correction and correction._replace(region=text.region(span))
    return finding._replace(correction=correction)


def _uncorrected(finding: Finding) -> Finding:
    remedy = finding.remedy if finding.correction is None else CHECKS[finding.code].remedy
    return finding._replace(correction=None, remedy=remedy)


def _in_order(values: str) -> Correction | None:
    """Return a list of values as the standard wants it: in order, and each once (F-23)."""
    read = json.loads(values)
    if not isinstance(read, list) or not read or not all(isinstance(one, str) for one in read):
        return None
    ordered = iter(sorted(set(read)))
    if len(read) == len(set(read)):  # the layout stays
        return Correction(_STRING.sub(lambda _: json.dumps(next(ordered)), values))
    return Correction(json.dumps(list(ordered)))


class _Text:
    r"""A text with its lines.

    >>> _Text("a\nbcd").region((2, 4))
    Region(line=2, column=1, end_line=2, end_column=3)
    """

    def __init__(self, content: str) -> None:
        self.content = content
        self._starts = [0, *(match.end() for match in re.finditer("\n", content))]

    def region(self, span: _Span) -> Region:
        """Return lines and columns of a part of the text."""
        (line, column), (end_line, end_column) = map(self._position, span)
        return Region(line, column, end_line, end_column)

    def _position(self, index: int) -> _Span:
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1
