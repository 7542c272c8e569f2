"""Times of upload."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wheelfit.sources.cooldown import parse_cutoff

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7D", datetime(2026, 3, 3, 12, tzinfo=UTC)),
        ("P1W", datetime(2026, 3, 3, 12, tzinfo=UTC)),
        ("pt36h", datetime(2026, 3, 9, 0, tzinfo=UTC)),
        ("7 days", datetime(2026, 3, 3, 12, tzinfo=UTC)),
        ("1 week ago", datetime(2026, 3, 3, 12, tzinfo=UTC)),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02", datetime(2026, 1, 2).astimezone()),
    ],
)
def test_moments(text: str, expected: datetime) -> None:
    """Dates, times and durations are understood, as pip and uv write them."""
    assert parse_cutoff(text).at(NOW) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "soon", "7", "7 fortnights", "P999999W"])
def test_what_is_none(text: str) -> None:
    """Anything else is refused, and so is what lies before all times."""
    with pytest.raises(ValueError, match="neither a date"):
        parse_cutoff(text)
