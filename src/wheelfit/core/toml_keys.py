r"""Keys of a TOML document, removed as text: comments, order and style of the rest stay.

Nothing is parsed again here; a caller does that, and sees whether the document says what it should.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.toml_lines import blocks_of, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    _Span = tuple[int, int]


def remove_key(text: str, path: tuple[str, ...]) -> str:
    r"""Return a document without a key, in whichever form it is written.

    With it go its lines and comments on them. Its table goes too if nothing else is in it.

    >>> remove_key('[a]\nb = 1\n\n[a.s]\n# all\nc = {d = 1}  # why\ne = 2\n', ("a", "s", "c"))
    '[a]\nb = 1\n\n[a.s]\n# all\ne = 2\n'
    >>> remove_key('a = 1\n\n[b.c]\nd = 1\n', ("b", "c"))
    'a = 1\n'

    :param path: the key with those of the tables around it.
    """
    for start, end, steps in reversed(blocks_of(text)):
        if steps[: len(path)] == path:
            text = _without_lines(text, start, end)
    while (span := _outermost(values_of(text), path)) is not None:
        text = _without_pair(text, *span)
    return _without_empty(text, path[:-1])


def _outermost(
    values: Mapping[tuple[str | int, ...], _Span], path: tuple[str, ...]
) -> tuple[_Span, Sequence[_Span], _Span | None] | None:
    """Return the value of a key, those beside it, and the braces around them; None: it has none."""
    found = next((steps for steps in values if steps[: len(path)] == path), None)
    if found is None:
        return None
    around = next(
        (found[:size] for size in range(len(path) - 1, 0, -1) if found[:size] in values), None
    )
    if around is None:
        return values[found], (), None
    beside = [
        span for steps, span in values.items() if len(steps) > len(around) == _common(steps, around)
    ]
    return values[found], beside, values[around]


def _common(steps: tuple[str | int, ...], around: tuple[str | int, ...]) -> int:
    return len(around) if steps[: len(around)] == around else -1


def _without_pair(text: str, value: _Span, beside: Sequence[_Span], braces: _Span | None) -> str:
    first, stop = value
    if braces is None:
        end = text.find("\n", stop)
        start = text.rfind("\n", 0, first) + 1
        return text[:start] + ("" if end < 0 else text[end + 1 :])
    before = [end for _, end in beside if end <= first]
    if before:
        return text[: max(before)] + text[stop:]
    behind = text[stop : braces[1] - 1].lstrip()
    rest = behind.removeprefix(",")
    return text[: braces[0] + 1] + rest + text[braces[1] - 1 :]


def _without_empty(text: str, table: tuple[str, ...]) -> str:
    """Return a document without a table that has nothing any more, not even a comment."""
    if not table:
        return text
    span = values_of(text).get(table)
    if span is not None and not text[span[0] + 1 : span[1] - 1].strip():
        return remove_key(text, table)
    lines = text.split("\n")
    for start, end, steps in blocks_of(text):
        following = lines[end : end + 1]
        if steps == table and end == start + 1 and not "".join(following).strip():
            return _without_lines(text, start, end)
    return text


def _without_lines(text: str, start: int, end: int) -> str:
    """Return a text without some lines, and without an empty line that would follow another."""
    lines = text.split("\n")
    del lines[start:end]
    while start and not lines[start - 1].strip() and not "".join(lines[start : start + 1]).strip():
        start -= 1
        del lines[start]
    return "\n".join(lines)
