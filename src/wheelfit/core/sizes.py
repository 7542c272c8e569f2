"""Parsing and formatting of sizes in bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNITS: Mapping[str, int] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 10 ** (3 * power) for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1 << (10 * power) for power, letter in enumerate("kmgt", 1)},
}
_SIZE = pattern(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """Parse a size, and return its number of bytes.

    >>> parse_size("1.5 GB"), parse_size("64KiB"), parse_size("500")
    (1500000000, 65536, 500)

    :raises ValueError: the text is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError(f"{text[:40]!r} is not a size: write bytes, or 500MB, 2GB, 1.5GiB")
    whole, _, fraction = match[1].partition(".")
    unit = _UNITS[match[2].lower()]
    return int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def size_in_words(count: int) -> str:
    """Return a number of bytes with a decimal unit and one digit after the point.

    >>> size_in_words(18_200_000)
    '18.2 MB'
    """
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} GB"
