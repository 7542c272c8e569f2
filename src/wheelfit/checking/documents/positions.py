"""Positions of keys and values in a document, for editors and review tools."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.checking.checks import BAD_VALUES, CHECKS
from wheelfit.checking.findings import Correction, Finding, Region
from wheelfit.core.strict_json import path_of
from wheelfit.core.toml_lines import lines_of, nearest, values_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


_LEXEME = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|\n|[^\s\[\]{},:"]++')
_MAX_DEPTH = 64
"""Deeper containers end a scan, as paths grow with the depth; real documents are far below."""
_SIMPLE_KEY = re.compile(r'"[A-Za-z0-9_$.-]*+"')
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_Span = tuple[int, int]


@dataclass(slots=True)
class DocumentEntry:
    """A key with its value, or an element of a list."""

    line: int
    """The line on which it begins, from 1."""
    key: _Span | None = None
    """The start of the key and the index after its end; None for an element."""
    value: _Span | None = None
    """The start and end of the value; None if the end was not read."""


def find_positions(data: bytes, paths: Collection[str] = ()) -> dict[str, DocumentEntry]:
    r"""Return every key and element, by path.

    Invalid JSON is read as far as possible.

    >>> find_positions(b'{"variants":\n {"null": {}}}')["variants.null"]
    DocumentEntry(line=2, key=(15, 21), value=(23, 25))

    :param paths: the required paths, after which reading stops; empty: all.
    """
    by_path = {"": DocumentEntry(1)}
    with suppress(ValueError, IndexError):
        _scan(data.decode("utf-8"), by_path, set(paths))
    return by_path


def _scan(text: str, by_path: dict[str, DocumentEntry], missing: set[str]) -> None:
    """Add the entries of a text to a mapping until no path is missing."""
    read_all = not missing
    line = 1
    # For each open container, the key or index of its current entry.
    steps: list[str | int] = []
    # For each open container, its path and where it starts.
    containers: list[tuple[str, int]] = []
    # The path of the value that begins next. An object's key sets it, or else the value itself.
    path = ""
    awaits_key = False

    def add_entry(key: _Span | None = None) -> str:
        entry_path = path_of(*steps)
        by_path.setdefault(entry_path, DocumentEntry(line, key))
        return entry_path

    def set_value(path: str, value: _Span) -> None:
        if by_path[path].value is None:
            by_path[path].value = value
        missing.discard(path)

    for match in _LEXEME.finditer(text):
        lexeme = match[0]
        if lexeme == "\n":
            line += 1
        elif lexeme in "]}":
            steps.pop()
            awaits_key = False
            container_path, start = containers.pop()
            set_value(container_path, (start, match.end()))
        elif lexeme == ",":
            last = steps[-1]
            if isinstance(last, int):  # in an array
                steps[-1] = last + 1
            else:
                awaits_key = True
        elif lexeme == ":":
            awaits_key = False
        elif awaits_key:  # this is the key
            steps[-1] = lexeme[1:-1] if _SIMPLE_KEY.fullmatch(lexeme) else json.loads(lexeme)
            path = add_entry(match.span())
        else:  # a value begins
            if steps and isinstance(steps[-1], int):
                path = add_entry()
            if lexeme in "{[":
                containers.append((path, match.start()))
                steps.append("" if lexeme == "{" else 0)
                awaits_key = lexeme == "{"
            else:
                set_value(path, match.span())
        if len(steps) > _MAX_DEPTH or not (read_all or missing):
            return


def with_positions(findings: Iterable[Finding], data: bytes) -> list[Finding]:
    """Return findings in a JSON document with their lines, and with the regions of corrections."""
    all_findings = list(findings)
    if not any(finding.path for finding in all_findings):
        return all_findings
    corrected_paths = {
        new_path for finding in all_findings if (new_path := _corrected_path(finding)) is not None
    }
    by_path = find_positions(
        data, corrected_paths.union(finding.path for finding in all_findings if finding.path)
    )
    lines = {path: entry.line for path, entry in by_path.items()}
    text = _Text(data.decode("utf-8", "replace"))
    return [
        _with_region(finding._replace(line=nearest(finding.path, lines)), by_path, text)
        for finding in all_findings
    ]


def with_toml_positions(findings: Iterable[Finding], data: bytes) -> list[Finding]:
    """Return findings in a TOML document with their lines, and with corrections of values."""
    text = _Text(data.decode("utf-8"))
    spans = {path_of(*steps): span for steps, span in values_of(text.content).items()}
    lines = lines_of(text.content)
    results = []
    for finding in findings:
        correction, span = finding.correction, spans.get(finding.path)
        if correction is not None and span is not None:
            correction = correction._replace(region=text.region(span))
        results.append(finding._replace(line=nearest(finding.path, lines), correction=correction))
    return results


def _corrected_path(finding: Finding) -> str | None:
    """Return a finding's path with the corrected key; None if the key is correct."""
    correction = finding.correction
    if correction is None or not correction.is_of_key:
        return None
    parent, dot, _ = finding.path.rpartition(".")
    return f"{parent}{dot}{json.loads(correction.text)}"


def _with_region(finding: Finding, by_path: dict[str, DocumentEntry], text: _Text) -> Finding:
    """Return a finding with the region of its correction; without a region, no correction."""
    correction, entry = finding.correction, by_path.get(finding.path)
    # Bad values have no correction yet: `_sorted_values` below makes it from their text.
    if correction is None and finding.code != BAD_VALUES.code:
        return finding
    corrected_path = _corrected_path(finding)
    repeats_key = corrected_path is not None and corrected_path in by_path
    span = None
    if entry is not None and not repeats_key:
        span = entry.key if correction is not None and correction.is_of_key else entry.value
    if span is None:
        # The remedy names the dropped correction, so the general remedy of the check replaces it.
        remedy = finding.remedy if correction is None else CHECKS[finding.code].remedy
        return finding._replace(correction=None, remedy=remedy)
    correction = correction or _sorted_values(text.content[slice(*span)])
    correction = correction and correction._replace(region=text.region(span))
    return finding._replace(correction=correction)


def _sorted_values(values: str) -> Correction | None:
    """Return the correction of a list of values: sorted and without duplicates (F-23)."""
    elements = json.loads(values)
    if (
        not isinstance(elements, list)
        or not elements
        or not all(isinstance(element, str) for element in elements)
    ):
        return None
    ordered = iter(sorted(set(elements)))
    if len(elements) == len(set(elements)):  # the whitespace between values can stay
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
