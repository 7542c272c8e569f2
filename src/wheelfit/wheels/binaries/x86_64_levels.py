"""The levels of x86-64, as notes and names have them (P-102)."""

from __future__ import annotations

LEVELS = ("v1", "v2", "v3", "v4")


def level_of_bits(bits: int) -> str | None:
    """Return the highest level in a note's set of bits; None for none or an unknown one.

    >>> level_of_bits(0b0111), level_of_bits(0), level_of_bits(0b10000)
    ('v3', None, None)

    :param bits: bit 0 is the baseline, v1.
    """
    highest = bits.bit_length()
    return LEVELS[highest - 1] if 1 <= highest <= len(LEVELS) else None


def is_below(level: str, other: str) -> bool:
    """Say whether a level is lower than another; both are known."""
    return LEVELS.index(level) < LEVELS.index(other)
