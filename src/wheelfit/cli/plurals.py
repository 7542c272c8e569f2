"""How many of something there are, in words."""

from __future__ import annotations

__all__ = ["count_of"]


def __dir__() -> list[str]:
    return __all__


def count_of(number: int, word: str) -> str:
    """Return a number with what it counts.

    >>> count_of(1, "wheel"), count_of(2, "wheel")
    ('1 wheel', '2 wheels')

    :param number: how many.
    :param word: what one is called; others with an ``s`` behind.
    """
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
