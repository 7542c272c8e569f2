"""Find the wheels that were asked for: those of a lock, or what an index has."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import NoCompatibleWheel, NoFit, ProjectNotFound, UserError
from wheelfit_runtime.libraries.lock_input import read_lock
from wheelfit_runtime.libraries.requirements import MOST_NUMBERS, requirements_of, span_of
from wheelfit_runtime.libraries.transports import transport_for
from wheelfit_runtime.libraries.versions import Requirement, Span, parse_version
from wheelfit_runtime.libraries.wheels import best

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit_runtime.libraries.machine import Machine
    from wheelfit_runtime.libraries.progress import Progress
    from wheelfit_runtime.libraries.request import LibraryRequest
    from wheelfit_runtime.libraries.transports import Transport
    from wheelfit_runtime.libraries.wheels import ListedWheel


def resolved(
    request: LibraryRequest,
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    progress: Progress,
) -> tuple[list[ListedWheel], str, Transport | None]:
    """Return the wheels to have, the version of the family, and who fetches them.

    :raises NoFit: there is nothing that would do.
    :raises NetworkError: nobody can be asked.
    :raises UserError: the lock has another version than was asked for.
    """
    family = request.family
    if request.lock is not None:
        lock = read_lock(Path(request.lock))
        listed = [_of_lock(request.lock, lock, project, machine) for project in projects.values()]
        version = _version(request, projects, lock)
        numbers = parse_version(version)
        allowed = span_of(family, request.version, request.driver, cap=False)
        if numbers is None or not allowed.holds(numbers):
            raise UserError(
                f"the lock has {family.title} {version}, and {request.version} was asked for",
                where=request.lock,
                hint="ask for a version that it has, or make the lock anew",
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
    request: LibraryRequest,
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    transport: Transport,
    progress: Progress,
    error: NoFit,
) -> list[ListedWheel]:
    """Return the wheels of an index that has the components and not the table, as mirrors do.

    :raises NoFit: some versions only the table knows, or they are not there either.
    """
    components = request.family.components
    if request.family.table and len(span.low) < MOST_NUMBERS:
        if all(components[name].has_version_of_family for name in projects):
            with suppress(NoFit):
                return _of_one_minor(machine, projects, span, transport, progress)
        elif isinstance(error, ProjectNotFound):
            known = (name for name, one in components.items() if one.has_version_of_family)
            error.hint = (
                f"have {request.family.table} put there, which says what forms one version; "
                f"without it only these can be had: {', '.join(known)}"
            )
    raise error


def _of_one_minor(
    machine: Machine,
    projects: Mapping[str, str],
    span: Span,
    transport: Transport,
    progress: Progress,
) -> list[ListedWheel]:
    """Return wheels whose versions begin with the same two numbers, the newest that all have.

    :raises NoFit: there are none.
    """
    while True:
        wanted = [Requirement(project, (), str(span)) for project in projects.values()]
        found = transport.resolve(wanted, machine, progress)
        versions = [parse_version(one.version) for one in found if one.project in projects.values()]
        minors = sorted({(*version, 0)[:2] for version in versions if version is not None})
        if len(minors) < 2:
            return found
        # What has the oldest has nothing newer, so the others are asked for that.
        major, minor = minors[0]
        span = Span(span.low, (major, minor + 1))


def _version(
    request: LibraryRequest, projects: Mapping[str, str], wheels: Iterable[ListedWheel]
) -> str:
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


def _of_lock(path: str, lock: Sequence[ListedWheel], project: str, machine: Machine) -> ListedWheel:
    wheels = [one for one in lock if one.project == project]
    if not wheels:
        raise NoCompatibleWheel(
            f"the lock has no wheel of {project}",
            where=path,
            hint="make it anew with all components that are asked for, or ask for what it has",
        )
    return best(wheels, Requirement(project), machine)
