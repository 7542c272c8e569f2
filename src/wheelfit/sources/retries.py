"""The policy for repeating failed requests, and for the delays between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from wheelfit.sources.transport import Interrupted


RETRY_STATUSES = frozenset({429, 500, 502, 503, 504, 520, 527})
"""Statuses of errors that are often temporary."""

_FEW_RETRIES = 2  # if a host refuses the connection or has no address


class RetryPolicy(Struct, frozen=True):
    """The number of retries of a request, and the delays before them."""

    count: int = 5
    """The maximum number of retries."""
    first_delay: float = 0.25
    """Seconds before the first retry; doubled each time."""
    longest_delay: float = 8.0
    """The maximum seconds between two requests, unless the server asks for more."""
    longest_wait: float = 60.0
    """The maximum seconds in ``Retry-After``; after more, a request is not repeated."""

    def after_interruption(self, attempt: int, interrupted: Interrupted) -> float | None:
        """Return the seconds to wait before the next attempt; None: there is none.

        :param attempt: the number of failed attempts, this one included.
        """
        if interrupted.retry_chance == "none":
            return None
        allowed = (
            self.count if interrupted.retry_chance == "good" else min(self.count, _FEW_RETRIES)
        )
        return self._delay(attempt) if attempt <= allowed else None

    def after_status(self, attempt: int, retry_after: str | None, now: float) -> float | None:
        """Return the seconds to wait after one of `RETRY_STATUSES`; None: no further attempt.

        :param attempt: the number of failed attempts, this one included.
        :param retry_after: the ``Retry-After`` header: seconds or a date.
        :param now: seconds since the epoch.
        """
        if attempt > self.count:
            return None
        requested = _retry_after_seconds(retry_after, now)
        if requested is None:
            return self._delay(attempt)
        return requested if requested <= self.longest_wait else None

    def _delay(self, attempt: int) -> float:
        return float(min(self.first_delay * 2 ** (attempt - 1), self.longest_delay))


def _retry_after_seconds(text: str | None, now: float) -> float | None:
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime  # takes 10 ms, rarely needed

    try:
        retry_time = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if retry_time.tzinfo is None:
        retry_time = retry_time.replace(tzinfo=UTC)
    return max(0.0, (retry_time - datetime.fromtimestamp(now, UTC)).total_seconds())
