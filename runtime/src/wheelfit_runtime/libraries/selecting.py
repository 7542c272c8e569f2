"""Choose libraries for this machine, and fetch missing ones, at the first start of a program."""

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
from wheelfit_runtime.libraries.store_changes import is_writable, locked, not_in_store_error
from wheelfit_runtime.libraries.versions import Span, parse_version

if TYPE_CHECKING:
    from wheelfit_runtime.libraries.request import LibraryRequest
    from wheelfit_runtime.libraries.store import Store


def choose(
    request: LibraryRequest, previous: Selection | None, problem: OSError | None
) -> Selection:
    """Return the libraries to load, fetching missing ones.

    :param previous: the previous selection, if there is one; it may be incomplete or damaged.
    :param problem: the error of the system's loader for the previous selection; None: it was not
        tried.
    :raises EnvironmentUnavailable: ``library-not-loadable``; the loader refuses undamaged files.
    :raises WheelfitError: the libraries are not available; the class is the reason.
    """
    damaged = _damaged_wheels(request.store, previous)
    if (
        problem is not None
        and not damaged
        and previous is not None
        and previous.is_in(request.store)
    ):
        raise EnvironmentUnavailable(
            f"the loader of this system refuses a library: {problem}",
            code="library-not-loadable",
            note="its file is undamaged",
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


def _damaged_wheels(store: Store, previous: Selection | None) -> frozenset[str]:
    if previous is None:
        return frozenset()
    from wheelfit_runtime.libraries.verifying import damage_of

    entries = (store.find(sha256) for sha256, _, _ in previous.wheels)
    return frozenset(entry.sha256 for entry in entries if entry is not None and damage_of(entry))


def _select(request: LibraryRequest, progress: Progress, damaged: frozenset[str]) -> Selection:
    family = request.family
    machine = this_machine()
    check_machine(family, machine)
    major = str(numbers_of(family, request.version)[0])
    projects = distributions_of(family, request.components, major)
    span = span_of(family, request.version, request.driver, cap_to_driver=request.cap_to_driver)
    with locked(request.store, request.selection_name, lambda: progress.wait(family.title)):
        if not request.upgrade:
            reusable = _reusable(request, span, damaged)
            if reusable is not None:
                return reusable
        if request.is_offline and request.lock is None:
            return _stored(request, span, damaged)
        may_use_stored = not (damaged or request.is_prefetch or request.lock is not None)
        if may_use_stored and not is_writable(request.store):
            # Newer versions could not be stored anyway, as in a container image.
            with suppress(NotInStore):
                return _stored(request, span, damaged)
        try:
            # Takes 25 ms to import, and is not needed by a start that only chooses.
            from wheelfit_runtime.libraries.fetching import fetch_selection

            selection = fetch_selection(request, machine, projects, span, progress, damaged)
        except (NetworkError, StoreUnavailable):
            # Without a network or space, stored libraries may suffice.
            if may_use_stored:
                with suppress(NotInStore):
                    return _stored(request, span, damaged)
            raise
        _write_selection(request, selection)
        return selection


def _write_selection(request: LibraryRequest, selection: Selection) -> None:
    # If the store cannot be written, the next start chooses again.
    with suppress(OSError):
        write_selection(request.store, request.selection_name, selection)


def _reusable(request: LibraryRequest, span: Span, damaged: frozenset[str]) -> Selection | None:
    """Return the selection that another process wrote, or one with the same span of versions.

    The latter was made for another driver.
    """
    known_selection = read_selection(request.store, request.selection_name, request.fingerprint)
    if known_selection is None and request.lock is None:
        key = (request.family.name, request.components, str(span), False)
        for selection in reversed(read_all(request.store)):
            if (
                selection.family,
                selection.components,
                selection.span,
                selection.is_locked,
            ) == key:
                known_selection = selection.for_fingerprint(request.fingerprint, request.version)
                break
    if known_selection is None or not _is_sound(known_selection, request.store, damaged):
        return None
    _write_selection(request, known_selection)
    return known_selection


def _is_sound(selection: Selection, store: Store, damaged: frozenset[str]) -> bool:
    hashes = {library.sha256 for library in selection.libraries}
    return hashes.isdisjoint(damaged) and selection.is_in(store)


def _stored(request: LibraryRequest, span: Span, damaged: frozenset[str]) -> Selection:
    """Return the newest usable selection in the store, without any request."""
    candidates = []
    for selection in read_all(request.store):
        version = parse_version(selection.version)
        if (
            selection.family == request.family.name
            and version is not None
            and span.contains(version)
            and set(request.components) <= set(selection.components)
            and _is_sound(selection, request.store, damaged)
        ):
            candidates.append((version, -len(selection.components), selection))
    if not candidates:
        raise not_in_store_error(request, f"usable versions: {span}")
    return max(candidates, key=lambda candidate: candidate[:2])[2]
