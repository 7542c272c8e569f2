"""What is repeated, and after which pause."""

from __future__ import annotations

import pytest

from wheelfit.sources.retries import RETRY_STATUSES, RetryPolicy
from wheelfit.sources.transport import Interrupted

NOW = 1_800_000_000.0
POLICY = RetryPolicy(5)


def test_delays_grow_to_a_limit() -> None:
    """The delay doubles with each try and never exceeds the longest."""
    broken = Interrupted("x")
    policy = RetryPolicy(9)
    delays = [policy.after_interruption(attempt, broken) for attempt in range(1, 11)]
    assert delays == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, None]


def test_hope_decides() -> None:
    """A certificate is not tried again, an absent host twice, a broken connection as configured."""
    assert POLICY.after_interruption(1, Interrupted("x", retry_chance="none")) is None
    assert POLICY.after_interruption(2, Interrupted("x", retry_chance="little")) == 0.5
    assert POLICY.after_interruption(3, Interrupted("x", retry_chance="little")) is None
    assert POLICY.after_interruption(5, Interrupted("x")) == 4.0


@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [
        (None, 0.25),
        ("7", 7.0),
        ("61", None),
        ("Fri, 15 Jan 2027 08:00:10 GMT", 10.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("Fri, 15 Jan 2027 09:00:00 GMT", None),
        ("soon", 0.25),
        ("-1", 0.25),
        ("Fri, 15 Jan 99999999999999999999 08:00:00 GMT", 0.25),
        ("Fri, 15 Jan 2027 08:00:00 +99999999999999999999", 0.25),
    ],
)
def test_retry_after(retry_after: str | None, delay: float | None) -> None:
    """The server's wish counts, in seconds or as a date, but nobody waits for an hour."""
    assert POLICY.after_status(1, retry_after, NOW) == delay


def test_statuses() -> None:
    """What a repetition cannot change is not repeated."""
    assert sorted(RETRY_STATUSES) == [429, 500, 502, 503, 504, 520, 527]
    assert RetryPolicy(0).after_status(1, None, NOW) is None
