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
    from wheelfit.runtime.driver import Driver
    from wheelfit.runtime.libraries.families import Family
    from wheelfit.runtime.libraries.selections import Selection
    from wheelfit.runtime.libraries.store import Store

__all__ = ["choose"]


def __dir__() -> list[str]:
    return __all__


def choose(
    store: Store,
    known: Selection | None,
    problem: OSError | None,
    *,
    family: Family,
    version: str,
    components: tuple[str, ...],
    name: str,
    driver: Driver | None,
    fingerprint: str,
    cap_to_driver: bool,
    is_offline: bool,
    lock: str | None,
    transport: str | None,
    index_url: str | None,
    progress: bool,
    upgrade: bool,
) -> Selection:
    """Return what to load, fetched where it is not there.

    :param store: where it is kept.
    :param known: what was chosen before, of which something is missing or not loadable.
    :param problem: what the loader said of that.
    :param lock: the path of a lock.
    :param progress: whether people are told.
    :param upgrade: look for newer ones although some are there.
    :raises LibraryNotLoadable: nothing is wrong with the files that the loader refuses.
    :raises WheelfitError: it cannot be had.
    """
    damaged = _damaged(store, known)
    if problem is not None and not damaged and known is not None and known.is_in(store):
        raise LibraryNotLoadable(
            f"the loader of this system refuses a library: {problem}",
            note="its file is what it should be",
            hint="nothing may be executed where the store lies (a mount with noexec): set "
            "WHEELFIT_LIBRARY_STORE to another folder"
            if "failed to map" in str(problem)
            else None,
        )
    teller = Progress(sys.stderr if progress else None)
    request = Request(
        family=family,
        asked=version,
        components=components,
        name=name,
        driver=driver,
        fingerprint=fingerprint,
        environ=dict(os.environ),
        progress=teller,
        cap_to_driver=cap_to_driver,
        is_offline=is_offline,
        lock=None if lock is None else tuple(read_lock(Path(lock))),
        transport=transport,
        index_url=index_url,
        upgrade=upgrade,
        damaged=damaged,
    )
    try:
        return select(request, store)
    finally:
        teller.end()


def _damaged(store: Store, known: Selection | None) -> frozenset[str]:
    """Return the wheels that are not what they were; one that is gone is none of them."""
    found = set()
    for sha256, _, _ in known.wheels if known is not None else ():
        entry = store.find(sha256)
        if entry is not None and damage_of(entry):
            found.add(sha256)
    return frozenset(found)
