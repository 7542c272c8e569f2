"""How findings say lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN = 4


def some_of(words: Iterable[str]) -> str:
    """Return a list for people: all of a short one, the beginning of a long one.

    >>> some_of("abcdef")
    'a, b, c and 3 more'
    """
    found = list(words)
    if len(found) <= _SHOWN:
        return ", ".join(found)
    return f"{', '.join(found[: _SHOWN - 1])} and {len(found) - _SHOWN + 1} more"
