"""Reasons for a package: the chains of requirements that lead to it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.installation.dependencies import InstalledRequirement, InstalledRequirements
from wheelfit.locking.tree import TreeBranch, TreePackage, tree_of_lock
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.lock_files import load_lock
from wheelfit.operations.plain_data import PlainFields, plain_report
from wheelfit.operations.requests import EnvironmentOptions
from wheelfit.operations.show import not_installed_error
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from wheelfit.core.requirements import Requirement
    from wheelfit.locking.document import Lock, LockedPackage
    from wheelfit.operations.context import Context

_Node = TypeVar("_Node", bound="Hashable")
_Edge = TypeVar("_Edge")

_MAX_CHAINS = 100
"""Chains that are returned at most, the shortest first."""
_MAX_STEPS = 100_000
"""Chains that are examined at most."""


class WhyRequest(EnvironmentOptions):
    """The package, and the environment or lock that has it."""

    name: str = ""
    lock: str | None = None


@dataclass(frozen=True, slots=True)
class RequirementLink(PlainFields):
    """A package in a chain, and the requirement that links it to its predecessor."""

    name: NormalizedName
    version: str | None
    requirement: str | None
    """With extras and marker; None: it starts the chain, and the requirement is not recorded."""
    extra: str | None = None
    """The extra of the package before it that has the requirement; None: it applies always."""
    labels: tuple[str | None, ...] = ()
    """Labels of the package before it that have the requirement, None for its plain wheel; empty:
    all of them have it."""
    marker: str | None = None
    """The marker under which a lock has the package; None: always, or it is installed."""


@dataclass(frozen=True, slots=True)
class WhyReport:
    """The reasons for which a package is in an environment or a lock."""

    name: NormalizedName
    where: str
    """The environment, or the lock."""
    is_lock: bool
    versions: tuple[str, ...]
    """Its versions; several in a lock for several machines."""
    chains: tuple[tuple[RequirementLink, ...], ...]
    """Chains from the requested packages to this one, shortest first; none: it was not requested.
    """
    has_more: bool
    """Whether there are further chains."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "name versions chains",
            environment=None if self.is_lock else self.where,
            lock=self.where if self.is_lock else None,
            truncated=self.has_more,
        )


def why(request: WhyRequest, context: Context) -> WhyReport:
    """Return the chains of requirements that lead to a package.

    :param request: the package, and where it is.
    :param context: the environment variables and the reporter.
    :raises UserError: ``not-installed``; it is not installed.
    """
    name = canonicalize_name(request.name)
    if request.lock is not None:
        return _reasons_in_lock(load_lock(Path(request.lock)), request.lock, name)
    environment = open_environment_of(request, context.environ)
    needs = InstalledRequirements.of(environment.installed(), environment.interpreter.environment)
    if name not in needs.packages:
        raise not_installed_error([name], needs.packages, environment)
    return _reasons_for_installed(needs, environment.name, name)


def _chains(
    targets: Iterable[_Node],
    parents: Callable[[_Node], Iterable[tuple[_Node, _Edge]]],
    is_start: Callable[[_Node], bool],
) -> tuple[list[tuple[tuple[_Node, ...], tuple[_Edge, ...]]], bool]:
    """Return the paths to some nodes, the shortest first, and whether there are more.

    :param parents: returns the parents of a node, each with its edge.
    :param is_start: whether a path starts at a node, so that its parents are not followed.
    :return: the nodes of each path, and the edges between them.
    """
    chains: list[tuple[tuple[_Node, ...], tuple[_Edge, ...]]] = []
    pending: deque[tuple[tuple[_Node, ...], tuple[_Edge, ...]]] = deque(
        ((target,), ()) for target in targets
    )
    steps = 0
    while pending and len(chains) < _MAX_CHAINS and steps < _MAX_STEPS:
        nodes, edges = pending.popleft()
        steps += 1
        if is_start(nodes[0]):
            chains.append((nodes, edges))
            if edges:  # a target that is a start itself may be needed by others, too
                continue
        pending += [
            ((parent, *nodes), (edge, *edges))
            for parent, edge in parents(nodes[0])
            if parent not in nodes
        ]
    return chains, bool(pending)


def _reasons_for_installed(
    needs: InstalledRequirements, where: str, name: NormalizedName
) -> WhyReport:
    """Return the reasons for an installed package.

    Extras that may not have been requested are considered only if nothing else leads to it.
    """
    is_requested = needs.packages[name].requested
    chains, has_more = _installed_chains(needs, name, guess=False)
    if not chains and not is_requested:
        chains, has_more = _installed_chains(needs, name, guess=True)
    version = str(needs.packages[name].version)
    return WhyReport(name, where, False, (version,), tuple(chains), has_more)


def _installed_chains(
    needs: InstalledRequirements, name: NormalizedName, *, guess: bool
) -> tuple[list[tuple[RequirementLink, ...]], bool]:
    def parents(project: NormalizedName) -> list[tuple[NormalizedName, InstalledRequirement]]:
        dependents = (need for need in needs.on(project) if need.is_required or guess)
        return [(need.dependent.name, need) for need in dependents]

    def is_start(project: NormalizedName) -> bool:
        return needs.packages[project].requested or (project != name and not parents(project))

    paths, has_more = _chains([name], parents, is_start)
    versions = {package: str(entry.version) for package, entry in needs.packages.items()}
    chains = []
    for nodes, edges in paths:
        links = [
            RequirementLink(node, versions[node], str(need.requirement), need.extra)
            for node, need in zip(nodes[1:], edges, strict=True)
        ]
        chains.append((RequirementLink(nodes[0], versions[nodes[0]], None), *links))
    return chains, has_more


def _reasons_in_lock(lock: Lock, where: str, name: NormalizedName) -> WhyReport:
    """Return the reasons for a package in a lock, for any of its machines."""
    tree = tree_of_lock(lock)
    targets = [number for number, package in enumerate(tree.packages) if package.name == name]
    if not targets:
        raise UserError(
            f"{name[:80]} is not in the lock",
            code="not-installed",
            where=where,
            hint="`wheelfit tree` shows its packages",
        )
    root_requirements = {
        number: _requirement_text(root.requirement)
        for root in tree.roots or ()
        for number in root.positions
    }
    needed_by = tree.dependents()
    paths, has_more = _chains(
        targets,
        lambda number: needed_by.get(number, ()),
        lambda number: (
            number in root_requirements or (tree.roots is None and number not in needed_by)
        ),
    )

    def link(
        number: int, requirement: str | None, branch: TreeBranch | None = None
    ) -> RequirementLink:
        package = tree.packages[number]
        labels = () if branch is None or branch.by_all_wheels else branch.labels
        marker = None if package.marker is None else str(package.marker)
        return RequirementLink(package.name, _version(package), requirement, None, labels, marker)

    chains = []
    for nodes, edges in paths:
        links = [
            link(number, _requirement_of(lock.packages[parent], tree.packages[number].name), branch)
            for parent, number, branch in zip(nodes, nodes[1:], edges, strict=False)
        ]
        chains.append((link(nodes[0], root_requirements.get(nodes[0])), *links))
    versions = dict.fromkeys(filter(None, (_version(tree.packages[target]) for target in targets)))
    return WhyReport(name, where, True, tuple(versions), tuple(chains), has_more)


def _version(package: TreePackage) -> str | None:
    return None if package.version is None else str(package.version)


def _requirement_of(package: LockedPackage, name: NormalizedName) -> str | None:
    """Return the requirement by which a locked package needs another; None: it is not recorded."""
    for requirements in (package.needs or {}).values():
        for requirement in requirements:
            if requirement.name == name:
                return _requirement_text(requirement)
    return None


def _requirement_text(requirement: Requirement) -> str:
    return redact(str(requirement))
