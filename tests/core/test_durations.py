"""Durations with units."""

from __future__ import annotations

import pytest

from wheelfit.core.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("1s", 1), (" 90m ", 5400), ("12h", 43_200), ("90d", 7_776_000), ("1w", 604_800)],
)
def test_durations(text: str, seconds: float) -> None:
    """A number and its unit."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "d", "30", "-1d", "1.5h", "1 d", "1D", "1y", "٣d", "9999999d", "inf", "1d\0"]
)
def test_invalid_durations(text: str) -> None:
    """A number without a unit is refused as ambiguous."""
    with pytest.raises(ValueError, match="is not a span of time"):
        parse_duration(text)
