"""The positions in a TOML document: lines for errors, offsets for edits.

The parser does not return positions. The text was parsed before, so only brackets, strings and keys
are examined.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import tomli

from wheelfit.core.strict_json import path_of
from wheelfit_runtime.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def line_of(text: str, path: str) -> int | None:
    r"""Return the line of a path, or of its nearest parent; None if there is none.

    >>> line_of('[metadata]\nversion = "1"\n[[provider]]\nnamespace = "n"\n', "provider[0].x")
    3

    :param path: as in errors, for instance ``provider[1].properties.sm_arch``.
    """
    return nearest(path, lines_of(text))


def nearest(path: str, lines: Mapping[str, int]) -> int | None:
    """Return the line of a path, or of its nearest parent; None if there is none."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def with_lines(faults: Iterable[Fault], lines: Mapping[str, int]) -> list[Fault]:
    """Return faults with the line of each in its message, such as ``line 3: is missing``."""
    with_line: dict[Fault, None] = {}
    for fault in faults:
        line = nearest(fault.path, lines)
        start = f"line {line}: " if line else ""
        with_line[Fault(fault.path, f"{start}{fault.message}", fault.rule)] = None
    return list(with_line)


def lines_of(text: str) -> Mapping[str, int]:
    """Return the line of every table, key and element, by its path."""
    return {path_of(*steps): line for steps, line in _Walk(text).lines.items()}


def headers_of(text: str) -> tuple[tuple[int, tuple[str | int, ...]], ...]:
    r"""Return the line of every header of a table, with the table that begins there.

    >>> headers_of('a = [\n["b"]]\n[c."d.e"]\n[[f]]\n')
    ((3, ('c', 'd.e')), (4, ('f', 0)))
    """
    return tuple(_Walk(text).headers)


def blocks_of(text: str) -> list[tuple[int, int, tuple[str | int, ...]]]:
    r"""Return first line, line after the content, and name of every table that has a header.

    Lines are numbered from 0. Comments and empty lines before the next header belong to that.

    >>> blocks_of('[a]\nb = 1\n\n# about c\n[c]\n')
    [(0, 2, ('a',)), (4, 5, ('c',))]
    """
    lines = text.split("\n")
    headers = headers_of(text)
    ends = [*(line - 1 for line, _ in headers[1:]), len(lines)][: len(headers)]
    blocks = []
    for (line, steps), end in zip(headers, ends, strict=True):
        last = end
        while last > line and (not lines[last - 1].strip() or lines[last - 1].lstrip()[0] == "#"):
            last -= 1
        blocks.append((line - 1, last, steps))
    return blocks


def values_of(text: str) -> Mapping[tuple[str | int, ...], tuple[int, int]]:
    r"""Return the start and end of every value and element, as indexes into the text.

    >>> values_of('a = [\n"b"]\n')
    {('a',): (4, 10), ('a', 0): (6, 9)}
    """
    return dict(sorted(_Walk(text).values.items(), key=lambda item: item[1]))


_Steps = tuple[str | int, ...]
# Possessive quantifiers, so that nothing is matched twice.
_TOKEN = re.compile(
    r'(?P<long>"""(?:[^"\\]++|\\.|"(?!""))*+"{3,5}+|\'\'\'(?:[^\']++|\'(?!\'\'))*+\'{3,5}+)'
    r'|(?P<quoted>"(?:[^"\\\n]++|\\.)*+"|\'[^\'\n]*+\')'
    r"|(?P<comment>\#[^\n]*+)"
    r"|(?P<line>\n)"
    r"|(?P<sign>[\[\]{}=,.])"
    r"|(?P<bare>[^\s\[\]{}=,.\"'#]++)",
    re.DOTALL,
)


class _Walk:
    """A walk over the tokens of a document, which records positions."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, int]] = []
        """Kind, text and line of each token but comments."""
        self._starts: list[int] = []
        line = 1
        for match in _TOKEN.finditer(text):
            kind, token = match.lastgroup or "", match[0]
            if kind != "comment":
                self._tokens.append((kind, token, line))
                self._starts.append(match.start())
            line += token.count("\n")
        self._index = 0
        self._counts: dict[_Steps, int] = {}
        """The number of tables so far in each array of tables."""
        self.lines: dict[_Steps, int] = {}
        self.headers: list[tuple[int, _Steps]] = []
        self.values: dict[_Steps, tuple[int, int]] = {}
        self._walk()

    def _walk(self) -> None:
        table: _Steps = ()
        while (token := self._peek()) is not None:
            kind, text, line = token
            if kind == "line":
                self._index += 1
            elif text == "[" and kind == "sign":
                table = self._header(line)
            elif not self._pair(table):
                self._index += 1  # a token that begins no pair

    def _peek(self) -> tuple[str, str, int] | None:
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def _is_sign(self, sign: str) -> bool:
        token = self._peek()
        return token is not None and token[:2] == ("sign", sign)

    def _key(self) -> list[str]:
        """Read a key with its dots."""
        parts: list[str] = []
        while (token := self._peek()) is not None:
            kind, text, _ = token
            if kind == "quoted":
                parts.append(str(tomli.loads(f"key = {text}")["key"]))
            elif kind == "bare":
                parts.append(text)
            elif not self._is_sign("."):
                break
            self._index += 1
        return parts

    def _header(self, line: int) -> _Steps:
        self._index += 1
        is_array = self._is_sign("[")
        self._index += is_array
        steps = self._resolved(self._key())
        self._index += 1 + is_array  # the closing brackets
        if is_array:
            self.lines.setdefault(steps, line)
            count = self._counts[steps] = self._counts.get(steps, 0) + 1
            steps = (*steps, count - 1)
        self._mark(steps, 0, line)
        self.headers.append((line, steps))
        return steps

    def _resolved(self, parts: list[str]) -> _Steps:
        """Return the steps of a header; in an array of tables it refers to the last table."""
        steps: _Steps = ()
        for part in parts[:-1]:
            steps = (*steps, part)
            if steps in self._counts:
                steps = (*steps, self._counts[steps] - 1)
        return (*steps, *parts[-1:])

    def _mark(self, steps: _Steps, known_length: int, line: int) -> None:
        """Record a line for a value and for the tables that its dotted key creates."""
        for length in range(known_length + 1, len(steps) + 1):
            self.lines.setdefault(steps[:length], line)

    def _pair(self, table: _Steps) -> bool:
        """Read ``key = value``, or only the key; return whether there was one."""
        token = self._peek()
        parts = self._key()
        if not parts or token is None or not self._is_sign("="):
            return bool(parts)
        self._index += 1
        steps = (*table, *parts)
        self._mark(steps, len(table), token[2])
        self._value(steps)
        return True

    def _value(self, steps: _Steps) -> None:
        first = self._index
        self._pass_value(steps)
        if first < self._index <= len(self._tokens):
            last = self._index - 1
            end = self._starts[last] + len(self._tokens[last][1])
            self.values[steps] = self._starts[first], end

    def _pass_value(self, steps: _Steps) -> None:
        if self._is_sign("["):
            self._index += 1
            self._elements(steps)
        elif self._is_sign("{"):
            self._index += 1
            while (token := self._peek()) is not None and not self._is_sign("}"):
                if token[0] == "line" or self._is_sign(",") or not self._pair(steps):
                    self._index += 1
            self._index += 1
        else:  # a number may have a dot, a date a blank
            while (token := self._peek()) is not None and token[0] != "line":
                if token[0] == "sign" and token[1] != ".":
                    break
                self._index += 1

    def _elements(self, steps: _Steps) -> None:
        index = 0
        while (token := self._peek()) is not None and not self._is_sign("]"):
            if token[0] == "line" or self._is_sign(","):
                self._index += 1
                continue
            self._mark((*steps, index), len(steps), token[2])
            before = self._index
            self._value((*steps, index))
            if self._index == before:  # a token that begins no value
                self._index += 1
            index += 1
        self._index += 1
