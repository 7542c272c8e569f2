"""Say on which line of a TOML document a place is, for errors.

The parser of the standard library forgets lines. Here only headers and the keys at the
beginning of a line are looked at, which is how people write such files; of a place inside
a value the line of the value is told.
"""

from __future__ import annotations

import re
import tomllib

from wheelfit.core.strict_json import path_of

__all__ = ["line_of"]


def __dir__() -> list[str]:
    return __all__


_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_LINE = re.compile(
    rf"[ \t]*(?:(?P<open>\[\[?)[ \t]*(?P<table>{_KEY})[ \t]*\]|(?P<key>{_KEY})[ \t]*=)"
)
_MANY = re.compile(r'"""|' + r"'''")


def line_of(text: str, path: str) -> int | None:
    r"""Return the line of a place, or of what is nearest around it; None for nothing at all.

    >>> line_of('[metadata]\nversion = "1"\n[[provider]]\nnamespace = "n"\n', "provider[0].x")
    3

    :param text: the document, which is valid TOML.
    :param path: as errors write it, as ``provider[1].properties.sm_arch``.
    """
    lines = _numbered(text)
    while path:
        if path in lines:
            return lines[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return None


def _numbered(text: str) -> dict[str, int]:
    """Return the line of every table and key, by path."""
    lines: dict[str, int] = {}
    counts: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    inside = False  # a string of several lines, in which nothing counts
    for number, line in enumerate(text.split("\n"), 1):
        match = None if inside else _LINE.match(line)
        inside ^= len(_MANY.findall(line)) % 2 == 1
        if match is None:
            continue
        if match["table"]:
            table = _steps(match["table"], counts)
            if match["open"] == "[[":
                counts[table] = counts.get(table, -1) + 1
                lines.setdefault(path_of(*table), number)
                table = (*table, counts[table])
            lines.setdefault(path_of(*table), number)
        else:
            steps = (*table, *_words(match["key"]))
            for length in range(len(table) + 1, len(steps) + 1):
                lines.setdefault(path_of(*steps[:length]), number)
    return lines


def _steps(key: str, counts: dict[tuple[str | int, ...], int]) -> tuple[str | int, ...]:
    """Return where a header leads: into the last element of each list of tables on the way."""
    words = _words(key)
    steps: tuple[str | int, ...] = ()
    for position, word in enumerate(words):
        steps = (*steps, word)
        if steps in counts and position < len(words) - 1:
            steps = (*steps, counts[steps])
    return steps


def _words(key: str) -> tuple[str, ...]:
    return tuple(str(next(iter(tomllib.loads(f"{part} = 1")))) for part in re.findall(_PART, key))
