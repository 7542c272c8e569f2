"""The ranges of numbers in requests; the options of the command line have the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ANY_SIZE = (0, (1 << 63) - 1)

RANGES: Mapping[str, tuple[int, int]] = {
    "connections": (1, 64),
    "depth": (0, 10**9 - 1),
    "file_limit": _ANY_SIZE,
    "jobs": (1, 4096),
    "max_download": _ANY_SIZE,
    "max_size": _ANY_SIZE,
    "newest": (0, 10**9 - 1),
    "port": (0, (1 << 16) - 1),
    "project_limit": _ANY_SIZE,
    "retries": (0, 10**19),
    "runtime": (0, (1 << 31) - 1),
}
"""The smallest and the largest value of each field."""
POSITIVE = frozenset(["plugin_timeout", "timeout"])
"""Fields that are a number of seconds above 0."""
NOT_NEGATIVE = frozenset(["older_than", "publish_timeout"])
"""Fields that are a number of seconds from 0 on."""
LIMIT_RANGES: Mapping[str, tuple[int, int]] = {
    "size": (2, 1 << 30),
    "depth": (1, 200),
    "labels": (1, 100_000_000),
    "values": (1, 100_000_000),
    "lookups": (0, 100_000),
}
"""The limits of metadata, with the smallest and the largest value of each."""


def check_number(name: str, number: float) -> None:
    """Raise on a number outside the range of its field.

    :param name: the field; numbers of other fields are not checked.
    :raises UsageError: the number is outside.
    """
    from wheelfit.errors import UsageError

    if name in NOT_NEGATIVE and number == 0:
        return
    if name in POSITIVE | NOT_NEGATIVE:
        if not 0 < number < float("inf"):
            raise UsageError(f"{name} cannot be {number}: it is not a number of seconds")
    elif name in RANGES:
        _check_range(name, number, RANGES[name])


def check_limits(limits: Iterable[tuple[str, int]]) -> None:
    """Raise on unknown limits of metadata, or numbers outside their range.

    :raises TypeError: they are not pairs.
    :raises UsageError: a limit is unknown or out of range.
    """
    from wheelfit.errors import UsageError

    try:
        pairs = dict(limits)
    except ValueError:
        raise TypeError(f"limit takes pairs of a name and a number, not {limits!r}") from None
    for name, number in pairs.items():
        if name not in LIMIT_RANGES:
            raise UsageError(f"limit {name!r} is none of {', '.join(LIMIT_RANGES)}")
        _check_range(f"limit {name}", number, LIMIT_RANGES[name])


def _check_range(name: str, number: float, bounds: tuple[int, int]) -> None:
    from wheelfit.errors import UsageError

    smallest, largest = bounds
    if type(number) is not int or not smallest <= number <= largest:
        raise UsageError(
            f"{name} cannot be {number}: it is not a number from {smallest} to {largest}"
        )
