"""The time stamp of reproducible results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGITS = 11
"""Of a moment before the year 5139; dates end at 9999."""


def source_date_epoch(environ: Mapping[str, str]) -> int | None:
    """Return ``SOURCE_DATE_EPOCH``; None if it is not set.

    :param environ: the environment of the process.
    :raises UserError: it is no number of seconds.
    """
    text = environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise UserError(
            "SOURCE_DATE_EPOCH is not a number of seconds since 1970",
            where=f"SOURCE_DATE_EPOCH={text[:40]}",
        )
    return int(text)
