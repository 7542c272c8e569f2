"""Creation of a lock for every machine of several environments (F-120)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.core.versions import parse_version
from wheelfit.errors import InvalidMarker, NoConsistentSet, NoSolution, SourceBuildNotAllowed
from wheelfit.locking.conflicts import forks_of
from wheelfit.locking.document import Lock
from wheelfit.locking.environments import describe_environments, requires_python
from wheelfit.locking.listed_wheels import LabelSearch, ListedEnvironment
from wheelfit.locking.marker_writer import MarkerWriter
from wheelfit.locking.merging import Merging
from wheelfit.locking.plain_entries import put_entries
from wheelfit.locking.request import Fork, LockNeeds, Root, in_extras, in_groups
from wheelfit.locking.validation import CONFLICTS, ROOTS, TOOL
from wheelfit_runtime.errors import NoFit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wheelfit.core.target import Target
    from wheelfit.locking.environments import LockEnvironment, Python
    from wheelfit.locking.solving import Solver, Versions


class LockResult(Struct, frozen=True):
    """A new lock, with the solutions that it consists of."""

    lock: Lock
    environments: tuple[ListedEnvironment, ...]
    notes: tuple[str, ...] = ()
    """Notes for the user, one sentence each."""


EnvironmentCallback = Callable[["LockEnvironment"], None]
"""A function that is called with each environment before it is resolved."""


def lock_everywhere(
    solver: Solver,
    environments: Sequence[LockEnvironment],
    *,
    old: Lock | None = None,
    upgrade: Collection[NormalizedName] | None = (),
    every_platform: bool = False,
    every_python: bool = True,
    where: str = "",
    folder: Path | None = None,
    report: EnvironmentCallback = lambda _: None,
) -> LockResult:
    """Return a lock for every machine of several environments.

    :param environments: all environments; no other machine is considered.
    :param old: an older lock, whose versions are kept while they meet the request.
    :param upgrade: projects whose version may change; None: all may.
    :param every_platform: whether every platform must have a solution for every Python; otherwise
        environments without a solution are left out, unless there is none with one.
    :param every_python: whether every Python must have a solution on some platform.
    :raises NoFit: there is no solution.
    """
    listed_environments: list[ListedEnvironment] = []
    failed: list[tuple[LockEnvironment, NoFit]] = []
    chosen: dict[tuple[Fork, Python], Versions] = {}
    given_up: set[tuple[Fork, NormalizedName, Version]] = set()
    forks = forks_of(solver.request.conflicts)
    # Each environment prefers the versions of earlier ones. An older version may be better than the
    # newest only if it has builds for an accelerator. Macs have no such builds: they come last, so
    # that they prefer the version that was chosen for accelerators.
    macs_last = sorted(environments, key=lambda environment: environment.platform[0] == "darwin")
    for environment, fork in product(macs_last, forks):
        if failed and failed[-1][0] is environment:
            continue  # its first fork failed, so it is left out
        report(environment)
        preferred: Versions = {}
        if old is not None:
            preferred = locked_versions(old, environment.target, upgrade, fork.left_out)
        # Versions that another environment could not keep are not preferred in this one.
        preferred = {
            name: version
            for name, version in preferred.items()
            if (fork, name, version) not in given_up
        }
        old_versions = preferred
        fork_versions = chosen.setdefault((fork, environment.python), {})
        # The versions of the old lock have precedence, then those of other environments: first of
        # the same fork, then of other ones; in each fork, of the same Python, then of the one that
        # was added last.
        latest_first = reversed(chosen)
        for key in sorted(latest_first, key=partial(_distance, (fork, environment.python))):
            preferred = chosen[key] | preferred
        fork_solver = solver.for_fork(fork)
        try:
            solution = fork_solver.solve(environment, preferred, locked=old_versions)
        except NoFit as error:
            # A platform that lacks wheels may be left out. But if there is no consistent set, or if
            # only a later fork fails, the cause is another one.
            is_fatal = isinstance(error, NoConsistentSet) or fork is not forks[0]
            if every_platform or is_fatal:
                raise _with_environment(error, environment) from None
            failed.append((environment, error))
            continue
        listed = replace(LabelSearch(fork_solver, solution).listed(), fork=fork)
        listed_environments.append(listed)
        for name, project in listed.projects.items():
            fork_versions.setdefault(name, project.version)
            if preferred.get(name, project.version) != project.version:
                given_up.add((fork, name, preferred[name]))
    listed_environments.sort(key=lambda listed: environments.index(listed.environment))
    failed.sort(key=lambda failure: environments.index(failure[0]))
    solved_pythons = {listed.environment.python for listed in listed_environments}
    fatal = [
        (environment, error)
        for environment, error in failed
        if not solved_pythons or (every_python and environment.python not in solved_pythons)
    ]
    if fatal:
        raise _easiest_to_resolve(fatal)
    notes = _left_out_notes(failed)
    locked = build_lock(listed_environments, solver, where=where, folder=folder, old=old)
    return LockResult(locked.lock, locked.environments, (*notes, *locked.notes))


def _distance(own: tuple[Fork, Python], other: tuple[Fork, Python]) -> tuple[bool, bool]:
    """Return a sort key that puts the same fork and Python first."""
    return other[0] != own[0], other[1] != own[1]


def build_lock(
    listed_environments: Sequence[ListedEnvironment],
    solver: Solver,
    *,
    where: str = "",
    folder: Path | None = None,
    old: Lock | None = None,
) -> LockResult:
    """Return one lock for the solutions of several environments.

    :param old: an older lock, of which the tables of other tools are kept.
    :raises NoFit: two environments that no marker distinguishes need different versions.
    """
    request = solver.request
    merged = Merging(listed_environments, solver, folder).merged()
    marker_writer = MarkerWriter(listed.environment for listed in listed_environments)
    pythons = sorted({listed.environment.python for listed in listed_environments})
    extras, groups = _extras(request), _groups(request)
    lock = new_lock(
        merged.packages,
        plain=merged.plain,
        roots=[
            str(root)
            for root in request.roots
            if _is_root_needed(root, request, listed_environments)
        ],
        requires_python=requires_python(pythons, request.requires_python),
        environments=marker_writer.environments(),
        extras=extras,
        dependency_groups=groups,
        default_groups=request.default_groups,
        conflicts=request.conflicts,
        where=where,
    )
    if old is not None:
        lock = _with_tables_of_other_tools(lock, old, where)
    resolutions = [listed.solution.resolution for listed in listed_environments]
    notes = dict.fromkeys(
        text
        for resolution in resolutions
        for text in (*resolution.missing_builds, *resolution.notes)
    )
    return LockResult(lock, tuple(listed_environments), (*notes, *merged.notes))


def locked_versions(
    lock: Lock,
    target: Target,
    unlocked: Collection[NormalizedName] | None = (),
    left_out: Collection[str] = (),
) -> Versions:
    """Return the versions that a lock has for a target, for any extras and groups.

    :param unlocked: projects to leave out; None: all.
    :param left_out: extras and groups to leave out, as the markers of a lock.
    """
    if unlocked is None:
        return {}
    groups = (*lock.dependency_groups, *lock.default_groups)
    environment: dict[str, str | frozenset[str]] = {
        **target.environment,
        "extras": frozenset(extra for extra in lock.extras if in_extras(extra) not in left_out),
        "dependency_groups": frozenset(
            group for group in groups if in_groups(group) not in left_out
        ),
    }
    versions: Versions = {}
    for package in lock.packages:
        if package.version is None or package.name in unlocked:
            continue
        try:
            if package.marker is not None and not package.marker.evaluate(environment):
                continue
        except InvalidMarker:
            continue
        versions[package.name] = package.version
    return versions


def _extras(request: LockNeeds) -> set[str]:
    return {*request.extras, *(root.extra for root in request.roots if root.extra is not None)}


def _groups(request: LockNeeds) -> set[str]:
    groups = {root.group for root in request.roots if root.group is not None}
    return {*request.groups, *groups, *map(canonicalize_name, request.default_groups)}


def _is_root_needed(
    root: Root, request: LockNeeds, listed_environments: Iterable[ListedEnvironment]
) -> bool:
    """Return whether a root remains after overrides and exclusions, in any environment."""
    targets = (listed.environment.target for listed in listed_environments)
    return any(
        next(request.effective_requirements(root.requirement, target), None) is not None
        for target in targets
    )


def _with_tables_of_other_tools(lock: Lock, old: Lock, where: str) -> Lock:
    kept = old.to_mapping().get("tool", {})
    kept.pop(TOOL, None)
    if not kept:
        return lock
    table = lock.to_mapping()
    table["tool"] = {**kept, **table.get("tool", {})}
    return Lock.of(table, where=where)


def _left_out_notes(failed: Sequence[tuple[LockEnvironment, NoFit]]) -> Iterator[str]:
    """Yield one sentence for all environments that are left out for the same reason."""
    by_reason: dict[tuple[str, ...], list[tuple[LockEnvironment, NoFit]]] = {}
    for environment, error in failed:
        proof = error.note if isinstance(error, NoSolution) else None
        texts = (error.message, proof or "")
        key = tuple(text.replace(environment.name, "them") for text in texts)
        by_reason.setdefault(key, []).append((environment, error))
    for (common_message, _), group in by_reason.items():
        _, error = group[0]
        verb = "is" if len(group) == 1 else "are"
        reason = error.message if len(group) == 1 else common_message
        if isinstance(error, NoSolution):  # the proof is too long for a note
            reason = error.main_cause or reason
        elif isinstance(error, SourceBuildNotAllowed) and error.details:
            options = " ".join(f"--allow-source {detail['name']}" for detail in error.details)
            reason += f" ({options} locks for them)"
        environments = describe_environments([environment for environment, _ in group])
        yield f"{environments} {verb} left out: {reason}"


def _easiest_to_resolve(failed: Sequence[tuple[LockEnvironment, NoFit]]) -> NoFit:
    """Return the failure with the fewest packages to build, with all environments that have it.

    Missing permission to build comes before other failures.
    """

    def unbuilt_projects(error: NoFit) -> list[str] | None:
        """Return the projects that may not be built; None if that is not the failure."""
        if not isinstance(error, SourceBuildNotAllowed) or not error.details:
            return None
        return sorted(str(detail["name"]) for detail in error.details)

    def sort_key(failure: tuple[LockEnvironment, NoFit]) -> tuple[bool, int]:
        projects = unbuilt_projects(failure[1])
        return projects is None, len(projects or ())

    environment, easiest = min(failed, key=sort_key)
    projects = unbuilt_projects(easiest)
    if projects is not None:
        easiest.where = describe_environments(
            [other for other, error in failed if unbuilt_projects(error) == projects]
        )
    return _with_environment(easiest, environment)


def _with_environment(error: NoFit, environment: LockEnvironment) -> NoFit:
    if error.where is None:
        error.where = environment.name
    return error


def new_lock(
    packages: Iterable[Mapping[str, Any]],
    *,
    plain: Iterable[Mapping[str, Any]] | None = None,
    roots: Iterable[str] | None = None,
    requires_python: str | None = None,
    environments: Sequence[str] = (),
    extras: Iterable[str] = (),
    dependency_groups: Iterable[str] = (),
    default_groups: Iterable[str] = (),
    conflicts: Iterable[Sequence[str]] = (),
    where: str = "",
) -> Lock:
    """Build a lock; entries and names may come in any order, environments are kept in theirs.

    :param packages: entries of `wheelfit.locking.release.lock_release`, or of another lock.
    :param plain: the entries for tools without variants; None: the same.
    :param roots: the requirements that were locked, with a marker if an extra or a group requires
        them, as ``rich ; 'dev' in dependency_groups``; None: not recorded, so that all packages
        are installed everywhere.
    :param environments: markers of the supported environments, as requested.
    :param default_groups: the groups that apply when none is requested.
    :param conflicts: extras and groups of which at most one may be requested, as markers.
    :raises InvalidLock: the data is invalid; lists all faults at once.
    """
    table: dict[str, Any] = {"lock-version": "1.0"}
    if environments:
        table["environments"] = list(environments)
    if requires_python is not None:
        table["requires-python"] = requires_python
    lists = (
        ("extras", extras),
        ("dependency-groups", dependency_groups),
        ("default-groups", default_groups),
    )
    distinct = {key: sorted(set(items)) for key, items in lists}
    table |= {key: items for key, items in distinct.items() if items}
    table["created-by"] = "wheelfit"
    table["packages"] = []
    own_table: dict[str, Any] = {} if roots is None else {ROOTS: sorted(set(roots))}
    if conflict_lists := [list(conflict) for conflict in conflicts]:
        own_table[CONFLICTS] = conflict_lists
    if own_table:
        table["tool"] = {TOOL: own_table}
    entries = sorted(packages, key=_entry_sort_key)
    put_entries(table, entries, entries if plain is None else sorted(plain, key=_entry_sort_key))
    return Lock.of(table, where=where)


def _entry_sort_key(package: Mapping[str, Any]) -> tuple[str, Version, str]:
    """Sort entries of one name by version, then by marker."""
    try:
        version = parse_version(str(package.get("version", "0")))
    except InvalidVersion:
        version = Version("0")  # the check of the lock reports it
    return str(package.get("name")), version, str(package.get("marker", ""))
