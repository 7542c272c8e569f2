"""Lock for named machines, so that each chooses exactly its own resolution from the lock.

If one file cannot express them all, each machine gets its own file. To find out, the lock is read
back, and each machine chooses from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.errors import InvalidMarker
from wheelfit.locking.listed_wheels import ListedEnvironment, ListedProject
from wheelfit.locking.locking import EnvironmentCallback, LockResult, build_lock, locked_versions
from wheelfit_runtime.errors import NoFit, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.requirements import Requirement
    from wheelfit.locking.document import Lock
    from wheelfit.locking.environments import LockEnvironment
    from wheelfit.locking.selection import LockCandidates
    from wheelfit.locking.solving import Solution, Solver, Versions
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.repository import Repository


@dataclass(frozen=True, slots=True)
class NamedMachine:
    """A machine that a lock is for."""

    environment: LockEnvironment
    candidates: Callable[[Repository], Candidates]
    """Returns its candidates in a repository."""
    chooser: Callable[[Lock], LockCandidates]
    """Returns its candidates in a lock, with every extra and group of the lock."""
    old: Lock | None = None
    """An older lock for this machine alone; None: there is none."""


@dataclass(frozen=True, slots=True)
class HostLock:
    """A lock and the machines that it is for."""

    result: LockResult
    machines: tuple[NamedMachine, ...]
    split_reason: str | None = None
    """The reason for one lock for each machine; None: it is for all of them."""


def lock_for_hosts(
    solver: Solver,
    machines: Sequence[NamedMachine],
    *,
    old: Lock | None = None,
    upgrade: Collection[NormalizedName] | None = (),
    where: str = "",
    folder: Path | None = None,
    report: EnvironmentCallback = lambda _: None,
) -> tuple[HostLock, ...]:
    """Return one lock for several machines, or one for each if one lock cannot express them.

    :param machines: at least one.
    :param old: an older lock for all of them, whose versions stay while they meet the request.
    :param upgrade: projects whose version may change; None: all may.
    :raises NoFit: a machine has no solution.
    """
    listed_environments: list[ListedEnvironment] = []
    versions: Versions = {}
    for machine in machines:
        report(machine.environment)
        target = machine.environment.target
        # The version of the common old lock is preferred to that of the machine's own old lock, and
        # this one to that of an earlier machine.
        locked: Versions = {}
        for lock in (machine.old, old):
            if lock is not None:
                locked |= locked_versions(lock, target, upgrade)
        try:
            solution = solver.solve(
                machine.environment,
                versions | locked,
                locked=locked,
                candidates_of=machine.candidates,
            )
        except NoFit as error:
            error.where = error.where or machine.environment.name
            raise
        listed_environments.append(_listed_environment(solution))
        versions = solution.versions | versions
    try:
        common_lock = build_lock(listed_environments, solver, where=where, folder=folder, old=old)
        split_reason = next(_differences(common_lock.lock, machines, listed_environments), None)
    except NoFit as error:
        split_reason = error.message
    else:
        if split_reason is None or len(machines) == 1:
            return (HostLock(common_lock, tuple(machines)),)
    return tuple(
        HostLock(
            build_lock([listed], solver, where=where, folder=folder, old=machine.old),
            (machine,),
            split_reason,
        )
        for machine, listed in zip(machines, listed_environments, strict=True)
    )


def _listed_environment(solution: Solution) -> ListedEnvironment:
    projects = {}
    for pin in solution.resolution.pins:
        core = pin.core
        if core is None and pin.choice.chosen is not None:
            core = solution.candidates.core_metadata(pin.choice.chosen)
        requires_python = None if core is None else core.requires_python
        projects[pin.name] = ListedProject(
            pin.name,
            pin.release,
            pin.choice.release,
            frozenset([pin.filename.text]),
            needs={pin.label: () if core is None else tuple(_needs(pin, core, solution))},
            pythons=frozenset() if requires_python is None else frozenset([requires_python]),
        )
    return ListedEnvironment(solution.environment, solution, projects)


def _needs(
    pin: Pin, core: CoreMetadata, solution: Solution
) -> Iterator[tuple[NormalizedName | None, Requirement]]:
    """Yield the requirements of the chosen wheel on its machine."""
    environment = solution.environment.target.environment
    for requirement in core.requires:
        try:
            if requirement.applies(environment, "", pin.context):
                yield None, requirement
                continue
            for extra in pin.extras:
                if requirement.applies(environment, frozenset([extra]), pin.context):
                    yield extra, requirement
        except InvalidMarker:
            continue  # the resolver has reported it


def _differences(
    lock: Lock, machines: Sequence[NamedMachine], listed_environments: Sequence[ListedEnvironment]
) -> Iterator[str]:
    """Yield the machines whose choice from a lock differs from the resolution."""
    for machine, listed in zip(machines, listed_environments, strict=True):
        name = machine.environment.name
        resolved = {pin.name: pin.filename.text for pin in listed.solution.resolution.pins}
        try:
            pins = machine.chooser(lock).select().resolution().pins
        except (NoFit, UserError) as error:
            yield f"{name} could not choose from it: {error.message}"
            continue
        chosen = {pin.name: pin.filename.text for pin in pins}
        for project in sorted(resolved.keys() | chosen.keys()):
            if resolved.get(project) == chosen.get(project):
                continue
            if project not in resolved:
                yield f"{name} would get {project}, which it does not need"
            else:
                other_file = chosen.get(project, "nothing")
                yield f"{name} would get {other_file} instead of {resolved[project]}"
