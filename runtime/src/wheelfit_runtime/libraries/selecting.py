"""Choose libraries for this machine, with all of them in the store: the way of a first start."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import (
    EnvironmentUnavailable,
    NetworkError,
    NotInStore,
    StoreUnavailable,
)
from wheelfit_runtime.libraries.machine import check_machine, this_machine
from wheelfit_runtime.libraries.progress import Progress
from wheelfit_runtime.libraries.requirements import distributions_of, numbers_of, span_of
from wheelfit_runtime.libraries.selections import (
    Selection,
    read_all,
    read_selection,
    write_selection,
)
from wheelfit_runtime.libraries.store_changes import (
    can_be_written,
    locked,
    not_in_store,
)
from wheelfit_runtime.libraries.versions import parse_version

if TYPE_CHECKING:
    from wheelfit_runtime.libraries.request import LibraryRequest
    from wheelfit_runtime.libraries.store import Store
    from wheelfit_runtime.libraries.versions import Span


def choose(request: LibraryRequest, known: Selection | None, problem: OSError | None) -> Selection:
    """Return the libraries to load, fetching missing ones.

    :param known: the previous selection, of which a part is missing or not loadable.
    :raises EnvironmentUnavailable: ``library-not-loadable``; the loader refuses undamaged files.
    :raises WheelfitError: the libraries are not available; the class is the reason.
    """
    damaged = _damaged(request.store, known)
    if problem is not None and not damaged and known is not None and known.is_in(request.store):
        raise EnvironmentUnavailable(
            f"the loader of this system refuses a library: {problem}",
            code="library-not-loadable",
            note="its file is what it should be",
            hint="the store is on a file system mounted with noexec: set WHEELFIT_LIBRARY_STORE "
            "to another folder"
            if "failed to map" in str(problem)
            else None,
        )
    progress = Progress(sys.stderr if request.progress else None)
    try:
        return _select(request, progress, damaged)
    finally:
        progress.end()


def _damaged(store: Store, known: Selection | None) -> frozenset[str]:
    """Return the wheels with changed files, without missing ones."""
    if known is None:
        return frozenset()
    from wheelfit_runtime.libraries.verifying import damage_of

    entries = (store.find(sha256) for sha256, _, _ in known.wheels)
    return frozenset(entry.sha256 for entry in entries if entry is not None and damage_of(entry))


def _select(request: LibraryRequest, progress: Progress, damaged: frozenset[str]) -> Selection:
    family = request.family
    machine = this_machine()
    check_machine(family, machine)
    major = str(numbers_of(family, request.version)[0])
    projects = distributions_of(family, request.components, major)
    span = span_of(family, request.version, request.driver, cap=request.cap_to_driver)
    with locked(request.store, request.name, lambda: progress.wait(family.title)):
        if not request.upgrade:
            known = _known(request, span, damaged)
            if known is not None:
                return known
        if request.is_offline and request.lock is None:
            return _stored(request, span, damaged)
        may_be_old = not (damaged or request.is_ahead or request.lock is not None)
        if may_be_old and not can_be_written(request.store):
            # Newer ones that could not be stored, as in an image, need not be looked up.
            with suppress(NotInStore):
                return _stored(request, span, damaged)
        try:
            # What makes requests takes 25 ms to import, which a start that only chooses spares.
            from wheelfit_runtime.libraries.fetching import fetch_selection

            selection = fetch_selection(request, machine, projects, span, progress, damaged)
        except (NetworkError, StoreUnavailable):
            # Without a network or space the stored libraries may do.
            if may_be_old:
                with suppress(NotInStore):
                    return _stored(request, span, damaged)
            raise
        _remember(request, selection)
        return selection


def _remember(request: LibraryRequest, selection: Selection) -> None:
    # Where the store cannot be written the choice is repeated the next time, which is right too.
    with suppress(OSError):
        write_selection(request.store, request.name, selection)


def _known(request: LibraryRequest, span: Span, damaged: frozenset[str]) -> Selection | None:
    """Return another process's new selection, or the same versions for another driver."""
    known = read_selection(request.store, request.name, request.fingerprint)
    if known is None and request.lock is None:
        wanted = (request.family.name, request.components, str(span), False)
        for selection in reversed(read_all(request.store)):
            if (
                selection.family,
                selection.components,
                selection.span,
                selection.is_locked,
            ) == wanted:
                known = selection.for_fingerprint(request.fingerprint, request.version)
                break
    if known is None or not _is_sound(known, request.store, damaged):
        return None
    _remember(request, known)
    return known


def _is_sound(selection: Selection, store: Store, damaged: frozenset[str]) -> bool:
    hashes = {library.sha256 for library in selection.libraries}
    return hashes.isdisjoint(damaged) and selection.is_in(store)


def _stored(request: LibraryRequest, span: Span, damaged: frozenset[str]) -> Selection:
    """Return the newest usable earlier selection, without any request."""
    fitting = []
    for selection in read_all(request.store):
        version = parse_version(selection.version)
        if (
            selection.family == request.family.name
            and version is not None
            and span.holds(version)
            and set(request.components) <= set(selection.components)
            and _is_sound(selection, request.store, damaged)
        ):
            fitting.append((version, -len(selection.components), selection))
    if not fitting:
        raise not_in_store(request, f"versions that would do: {span}")
    return max(fitting, key=lambda candidate: candidate[:2])[2]
