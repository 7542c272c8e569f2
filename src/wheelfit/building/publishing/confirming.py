"""Look whether an index lists what it was sent, for an answer of 200 does not say so."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.publishing.completeness import compare
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.building.publishing.outgoing import Outgoing
    from wheelfit.checking.findings import Finding
    from wheelfit.sources.page import File

_LONGEST_PAUSE = 8.0


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Say what an index lists of the files that it was sent."""

    missing: tuple[Outgoing, ...] = ()
    """What it does not list."""
    findings: tuple[Finding, ...] = ()
    """What it lists with other content."""
    error: WheelfitError | None = None
    """Why that cannot be said; the rest says nothing then."""


def confirm(
    files: Sequence[Outgoing],
    listed: Callable[[], Mapping[str, File]],
    *,
    patience: float,
    pause: Callable[[float], None] = time.sleep,
) -> Confirmation:
    """Ask an index for what it was sent, again and again where a cache may lag behind.

    :param patience: for how many seconds it is asked again, all pauses together.
    """
    next_pause = 1.0
    while True:
        found = _look(files, listed)
        waits = min(next_pause, patience)
        if (found.error is None and not found.missing) or waits <= 0:
            return found
        pause(waits)
        patience -= waits
        next_pause = min(2 * next_pause, _LONGEST_PAUSE)


def _look(files: Sequence[Outgoing], listed: Callable[[], Mapping[str, File]]) -> Confirmation:
    try:
        there = listed()
    except WheelfitError as error:
        return Confirmation(error=error)
    missing = tuple(one for one in files if one.filename not in there)
    return Confirmation(missing, compare(files, there).findings)
