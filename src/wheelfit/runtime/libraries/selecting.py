"""Choose libraries for this machine, with all of them in the store: the way of a first start."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import (
    LibraryNotLoadable,
    NetworkError,
    NoCompatibleWheel,
    NoFit,
    NotInStore,
    ProjectNotFound,
    StoreUnavailable,
    UserError,
)
from wheelfit.runtime.libraries.fetching import brought, not_in_store
from wheelfit.runtime.libraries.keeping import can_be_written, unwritable
from wheelfit.runtime.libraries.lock_input import read_lock
from wheelfit.runtime.libraries.locks import locked
from wheelfit.runtime.libraries.machine import refuse_unfit, this_machine
from wheelfit.runtime.libraries.order import in_order
from wheelfit.runtime.libraries.progress import Progress
from wheelfit.runtime.libraries.requirements import (
    MOST_NUMBERS,
    distributions_of,
    numbers_of,
    requirements_of,
    span_of,
)
from wheelfit.runtime.libraries.selections import (
    Selection,
    read_all,
    read_selection,
    write_selection,
)
from wheelfit.runtime.libraries.transports import transport_for
from wheelfit.runtime.libraries.verifying import damage_of
from wheelfit.runtime.libraries.versions import Requirement, parse_version
from wheelfit.runtime.libraries.wheels import best

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit.runtime.libraries.machine import Machine
    from wheelfit.runtime.libraries.request import Request
    from wheelfit.runtime.libraries.store import Store
    from wheelfit.runtime.libraries.transports import Transport
    from wheelfit.runtime.libraries.versions import Span
    from wheelfit.runtime.libraries.wheels import Listed

__all__ = ["choose"]


def __dir__() -> list[str]:
    return __all__


def choose(request: Request, known: Selection | None, problem: OSError | None) -> Selection:
    """Return what to load, fetched where it is not there.

    :param known: what was chosen before, of which something is missing or not loadable.
    :param problem: what the loader said of that.
    :raises LibraryNotLoadable: nothing is wrong with the files that the loader refuses.
    :raises WheelfitError: it cannot be had; the reason is its class.
    """
    damaged = _damaged(request.store, known)
    if problem is not None and not damaged and known is not None and known.is_in(request.store):
        raise LibraryNotLoadable(
            f"the loader of this system refuses a library: {problem}",
            note="its file is what it should be",
            hint="nothing may be executed where the store lies (a mount with noexec): set "
            "WHEELFIT_LIBRARY_STORE to another folder"
            if "failed to map" in str(problem)
            else None,
        )
    progress = Progress(sys.stderr if request.progress else None)
    try:
        return _select(request, progress, damaged)
    finally:
        progress.end()


def _damaged(store: Store, known: Selection | None) -> frozenset[str]:
    """Return the wheels that are not what they were; one that is gone is none of them."""
    entries = (store.find(sha256) for sha256, _, _ in known.wheels) if known is not None else ()
    return frozenset(one.sha256 for one in entries if one is not None and damage_of(one))


def _select(request: Request, progress: Progress, damaged: frozenset[str]) -> Selection:
    family = request.family
    machine = this_machine()
    refuse_unfit(family, machine)
    major = str(numbers_of(family, request.version)[0])
    projects = distributions_of(family, request.components, major)
    span = span_of(family, request.version, request.driver, cap=request.cap_to_driver)

    def wait() -> None:
        progress.tell(f"waiting for another process that fetches {family.title}")

    with locked(request.store, request.name, wait):
        if not request.upgrade:
            known = _known(request, span, damaged)
            if known is not None:
                return known
        if request.is_offline and request.lock is None:
            return _stored(request, span, damaged)
        may_be_old = not (damaged or request.upgrade or request.lock is not None)
        if may_be_old and not can_be_written(request.store):
            # Nobody need be asked for newer ones that could not be kept, as in an image.
            with suppress(NotInStore):
                return _stored(request, span, damaged)
        try:
            listed, version, transport = _resolved(request, machine, projects, span, progress)
            entries = [brought(one, request, transport, progress, damaged) for one in listed]
        except OSError as error:
            raise unwritable(request.store.root, error) from None
        except (NetworkError, StoreUnavailable):
            # Nobody to ask, or no space left: what is there may do.
            if may_be_old:
                with suppress(NotInStore):
                    return _stored(request, span, damaged)
            raise
        try:
            libraries = in_order(
                entries, {name: family.components[name].libraries for name in projects}
            )
        except OSError as error:
            raise StoreUnavailable(
                f"somebody changes the library store meanwhile: {error}", where=request.store.root
            ) from None
        if not libraries:
            raise NoCompatibleWheel(
                f"the wheels of {family.title} {version} have none of the libraries"
            )
        selection = Selection(
            family=family.name,
            asked=request.version,
            components=request.components,
            fingerprint=request.fingerprint,
            span=str(span),
            version=version,
            wheels=tuple((one.sha256, one.project, one.version) for one in listed),
            libraries=libraries,
            stems=family.stems,
            is_locked=request.lock is not None,
        )
        _remember(request, selection)
        return selection


def _remember(request: Request, selection: Selection) -> None:
    # Where the store cannot be written all is chosen anew the next time, which is right too.
    with suppress(OSError):
        write_selection(request.store, request.name, selection)


# --- what is there ----------------------------------------------------------------------------


def _known(request: Request, span: Span, damaged: frozenset[str]) -> Selection | None:
    """Return what another process has just chosen, or another driver got of the same versions."""
    found = read_selection(request.store, request.name, request.fingerprint)
    if found is None and request.lock is None:
        wanted = (request.family.name, request.components, str(span), False)
        for one in reversed(read_all(request.store)):
            if (one.family, one.components, one.span, one.is_locked) == wanted:
                found = one.for_fingerprint(request.fingerprint, request.version)
                break
    if found is None or not _is_sound(found, request.store, damaged):
        return None
    _remember(request, found)
    return found


def _is_sound(selection: Selection, store: Store, damaged: frozenset[str]) -> bool:
    hashes = {one.sha256 for one in selection.libraries}
    return hashes.isdisjoint(damaged) and selection.is_in(store)


def _stored(request: Request, span: Span, damaged: frozenset[str]) -> Selection:
    """Return the newest of what was chosen before that will do, without asking anybody.

    :raises NotInStore: there is none.
    """
    fitting = []
    for one in read_all(request.store):
        version = parse_version(one.version)
        if (
            one.family == request.family.name
            and version is not None
            and span.holds(version)
            and set(request.components) <= set(one.components)
            and _is_sound(one, request.store, damaged)
        ):
            fitting.append((version, -len(one.components), one))
    if not fitting:
        raise not_in_store(request, f"versions that would do: {span}")
    return max(fitting, key=lambda found: found[:2])[2]


# --- what an index or a lock has ----------------------------------------------------------------


def _resolved(
    request: Request,
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    progress: Progress,
) -> tuple[list[Listed], str, Transport | None]:
    """Return the wheels to have, the version of the family, and who fetches them."""
    family = request.family
    if request.lock is not None:
        lock = read_lock(Path(request.lock))
        listed = [_of_lock(lock, project, machine) for project in projects.values()]
        version = _version(request, projects, lock)
        numbers = parse_version(version)
        allowed = span_of(family, request.version, request.driver, cap=False)
        if numbers is None or not allowed.holds(numbers):
            raise UserError(
                f"the lock has {family.title} {version}, and {request.version} was asked for"
            )
        return listed, version, None
    transport = transport_for(request.transport, request.index_url, request.environ)
    try:
        wanted = requirements_of(family, projects, span)
        found = transport.resolve(wanted, machine, progress)
    except NoFit as error:
        found = _without_table(request, machine, projects, span, transport, progress, error)
    # What a table or an installer adds to what was asked for, the libraries may need.
    listed = [one for one in found if one.project != family.table]
    missing = set(projects.values()) - {one.project for one in listed}
    if missing:
        raise NoCompatibleWheel(
            f"{family.title} {span} has no {', '.join(sorted(missing))} for this machine"
        )
    return listed, _version(request, projects, found), transport


def _without_table(
    request: Request,
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    transport: Transport,
    progress: Progress,
    error: NoFit,
) -> list[Listed]:
    """Return the wheels of an index that has the components and not the table, as mirrors do.

    :param error: what is wrong otherwise.
    :raises NoFit: some versions only the table knows, or they are not there either.
    """
    components = request.family.components
    if request.family.table and len(span.low) < MOST_NUMBERS:
        if all(components[name].has_version_of_family for name in projects):
            wanted = [Requirement(project, (), str(span)) for project in projects.values()]
            with suppress(NoFit):
                return transport.resolve(wanted, machine, progress)
        elif isinstance(error, ProjectNotFound):
            known = (name for name, one in components.items() if one.has_version_of_family)
            error.hint = (
                f"have {request.family.table} put there, which says what forms one version; "
                f"without it only these can be had: {', '.join(known)}"
            )
    raise error


def _version(request: Request, projects: Mapping[str, str], wheels: Iterable[Listed]) -> str:
    """Return the version of the family that some wheels are; what was asked for if none tells."""
    family = request.family
    told = {one.project: one.version for one in wheels}
    if family.table in told:
        return told[family.table]
    for name, project in projects.items():
        if not family.table:
            return told[project]
        if family.components[name].has_version_of_family:
            return ".".join(told[project].split(".")[:2])
    return request.version


def _of_lock(lock: Sequence[Listed], project: str, machine: Machine) -> Listed:
    wheels = [one for one in lock if one.project == project]
    if not wheels:
        raise NoCompatibleWheel(f"the lock has no wheel of {project}")
    return best(wheels, Requirement(project), machine)
