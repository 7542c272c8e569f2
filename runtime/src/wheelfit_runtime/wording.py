"""Formatting of lists and counts for sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_ITEMS = 12


def listed(items: Iterable[str], word: str = "and", *, most: int | None = _MAX_ITEMS) -> str:
    """Join strings as ``a, b and c``; the rest of a long list is counted.

    >>> listed(["a", "b", "c"]), listed("abcd", "or", most=3), listed([])
    ('a, b and c', 'a, b or 2 more', '')

    :param most: the maximum number of items, the count of the rest included; None: unlimited.
    """
    items = list(items)
    if most is not None and len(items) > most:
        items = [*items[: most - 1], f"{len(items) - most + 1} more"]
    return f" {word} ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


def count_of(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> count_of(1, "wheel"), count_of(2, "wheel"), count_of(0, "library", "libraries")
    ('1 wheel', '2 wheels', '0 libraries')

    :param plural: the noun for any other number; None: the singular with an ``s``.
    """
    return f"{number} {singular if number == 1 else plural or f'{singular}s'}"
