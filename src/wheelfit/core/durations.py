"""Durations in text, as users write them and as messages show them."""

from __future__ import annotations

import re

from wheelfit_runtime.patterns import pattern

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = pattern(r"([0-9]{1,6})([smhdw])", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration, such as ``12h``.

    >>> parse_duration("30d"), parse_duration("90m")
    (2592000.0, 5400.0)

    :raises ValueError: the text is not a duration.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a span of time: write 90d, 12h or 30m")
    return float(int(match[1]) * _UNITS[match[2]])


def duration_in_words(seconds: float) -> str:
    """Return a duration as text for messages.

    >>> [duration_in_words(seconds) for seconds in (0.0004, 0.085, 1.94, 125)]
    ['0.4 ms', '85 ms', '1.9 s', '2 min 5 s']
    """
    if seconds < 0.01:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 0.995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, seconds_left = divmod(round(seconds), 60)
    return f"{minutes} min {seconds_left} s"
