"""Choose anew: at a first start, for another driver, or where files are not what they were."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import LibraryNotLoadable
from wheelfit.runtime.libraries.lock_input import read_lock
from wheelfit.runtime.libraries.progress import Progress
from wheelfit.runtime.libraries.selecting import Request, select
from wheelfit.runtime.libraries.verifying import damage_of

if TYPE_CHECKING:
    from wheelfit.runtime.libraries.bringing import _Asked
    from wheelfit.runtime.libraries.selections import Selection

__all__ = ["choose"]


def __dir__() -> list[str]:
    return __all__


def choose(
    asked: _Asked, known: Selection | None, problem: OSError | None, *, upgrade: bool
) -> Selection:
    """Return what to load, fetched where it is not there.

    :param asked: the call.
    :param known: what was chosen before, of which something is missing or not loadable.
    :param problem: what the loader said of that.
    :param upgrade: look for newer ones although some are there.
    :raises LibraryNotLoadable: nothing is wrong with the files that the loader refuses.
    :raises WheelfitError: it cannot be had.
    """
    damaged = _damaged(asked, known)
    if problem is not None and not damaged:
        raise LibraryNotLoadable(
            f"the loader of this system refuses a library: {problem}",
            note="its file is what it should be",
        )
    progress = Progress(sys.stderr if asked.progress else None)
    request = Request(
        family=asked.family,
        asked=asked.version,
        components=asked.components,
        name=asked.name,
        driver=asked.driver,
        fingerprint=asked.fingerprint,
        environ=dict(os.environ),
        progress=progress,
        cap_to_driver=asked.cap_to_driver,
        is_offline=asked.is_offline,
        lock=None if asked.lock is None else tuple(read_lock(Path(asked.lock))),
        transport=asked.transport,
        index_url=asked.index_url,
        upgrade=upgrade,
        damaged=damaged,
    )
    try:
        return select(request, asked.store)
    finally:
        progress.end()


def _damaged(asked: _Asked, known: Selection | None) -> frozenset[str]:
    """Return the wheels that are not what they were; one that is gone is none of them."""
    found = set()
    for sha256, _, _ in known.wheels if known is not None else ():
        entry = asked.store.find(sha256)
        if entry is not None and damage_of(entry):
            found.add(sha256)
    return frozenset(found)
