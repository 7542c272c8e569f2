"""Spans of time as people write them."""

from __future__ import annotations

import re

from wheelfit_runtime.patterns import pattern

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = pattern(r"([0-9]{1,6})([smhdw])", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a span of time.

    >>> parse_duration("30d"), parse_duration("90m")
    (2592000.0, 5400.0)

    :param text: a number and one of ``s``, ``m``, ``h``, ``d`` and ``w``.
    :raises ValueError: it is not a span of time.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a span of time: write 90d, 12h or 30m")
    return float(int(match[1]) * _UNITS[match[2]])
