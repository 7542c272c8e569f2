"""The dependency tree of a lock: for every machine, with conditions, or for one machine.

A lock lists the requirements of each wheel of a release by its label. They are not merged: a
requirement of only some labels stays with those labels, and unlisted ones are unknown.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import structs
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.phrases import describe_condition
from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.markers import Marker
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.requirements import Requirement
    from wheelfit.locking.document import Lock, LockedPackage
    from wheelfit.locking.selection import LockSelection

Granularity: TypeAlias = Literal["by-label", "by-release", "unknown"]
"""Whether a lock records the requirements of each wheel, of the release as a whole, or none."""


@dataclass(frozen=True, slots=True)
class TreeBranch:
    """One requirement of a package, and the labels of the wheels that have it."""

    name: NormalizedName
    labels: tuple[Label | None, ...]
    """The labels of the wheels with the requirement; None is the plain wheel."""
    by_all_wheels: bool
    """Whether every wheel of the entry has the requirement."""
    positions: tuple[int, ...]
    """Positions of the needed packages in `Tree.packages`; none: the lock does not have it."""


@dataclass(frozen=True, slots=True)
class TreeLabel:
    """A label of an entry, or its plain wheel."""

    label: Label | None
    properties: PropertySet | None
    """Its declared properties; None: a plain wheel, or no usable ones."""
    condition: str
    """The properties a machine must support, in words; empty for a plain wheel."""


@dataclass(frozen=True, slots=True)
class TreePackage:
    """An entry of a lock."""

    name: NormalizedName
    version: Version | None
    marker: Marker | None
    """When the entry counts; None: always."""
    labels: tuple[TreeLabel, ...]
    """The distinct labels, in the order of the lock; for one machine, that of the chosen wheel."""
    branches: tuple[TreeBranch, ...]
    """Its dependencies, by name."""
    granularity: Granularity
    requested: bool = False
    """Whether it is a root of the lock, not only a dependency."""
    chosen: WheelFilename | None = None
    """The wheel that the machine gets; None in the tree for all machines."""
    reason: str = ""
    """The reason for the choice of that wheel, in words."""

    @property
    def has_variants(self) -> bool:
        """Whether any wheel has a label."""
        return any(label.label is not None for label in self.labels)


@dataclass(frozen=True, slots=True)
class TreeRoot:
    """A requirement that a lock was made for."""

    requirement: Requirement
    positions: tuple[int, ...]
    """The positions of its packages in `Tree.packages`."""

    @property
    def text(self) -> str:
        """The requirement without its marker, and without the login that a URL may have."""
        return redact(str(structs.replace(self.requirement, marker=None)))


@dataclass(frozen=True, slots=True)
class Tree:
    """The packages of a lock and their requirements."""

    packages: tuple[TreePackage, ...]
    roots: tuple[TreeRoot, ...] | None
    """The requirements the lock was made for; None: it lists none."""
    excluded: tuple[tuple[NormalizedName, str], ...] = ()
    """The packages the machine does not get, with the reason."""
    notes: tuple[str, ...] = ()
    """The unknown facts, one sentence each."""
    environments: tuple[str, ...] = ()
    """Markers of which one must hold where the lock is used; empty: no condition."""
    requires_python: str | None = None
    """The Pythons the lock is for; None: not stated."""

    def start_positions(self) -> tuple[int, ...]:
        """Return the positions of packages from which every package is reached.

        First come the roots of the lock, then packages that no other one needs, then one of each
        cycle that is left.
        """
        roots = [position for root in self.roots or () for position in root.positions]
        dependencies = self._dependencies()
        needed = {position for positions in dependencies.values() for position in positions}
        unneeded = [position for position in dependencies if position not in needed]
        starts = list(dict.fromkeys((*roots, *unneeded)))
        reached = set(_reachable(starts, dependencies))
        for position in dependencies:  # a cycle that no other package needs
            if position not in reached:
                starts.append(position)
                reached |= _reachable([position], dependencies, excluded=reached)
        return tuple(starts)

    def dependents(self) -> dict[int, list[tuple[int, TreeBranch]]]:
        """Return by the position of each package those of its dependents, with the branch."""
        dependents: dict[int, list[tuple[int, TreeBranch]]] = {}
        for dependent, package in enumerate(self.packages):
            for branch in package.branches:
                for position in branch.positions:
                    dependents.setdefault(position, []).append((dependent, branch))
        return dependents

    def restricted_to(self, positions: Iterable[int]) -> Tree:
        """Return the tree of some packages, without branches to others."""
        kept = sorted(set(positions))
        new_positions = {old: new for new, old in enumerate(kept)}

        def moved(positions: Iterable[int]) -> tuple[int, ...]:
            return tuple(new_positions[old] for old in positions if old in new_positions)

        packages = tuple(
            replace(
                self.packages[old],
                branches=tuple(
                    replace(branch, positions=moved(branch.positions))
                    for branch in self.packages[old].branches
                    if moved(branch.positions) or not branch.positions
                ),
            )
            for old in kept
        )
        roots = self.roots
        if roots is not None:
            remaining = (replace(root, positions=moved(root.positions)) for root in roots)
            roots = tuple(root for root in remaining if root.positions)
        return replace(self, packages=packages, roots=roots)

    def reached_within(self, depth: int) -> frozenset[int]:
        """Return the positions of packages within a number of steps.

        :param depth: the number of steps; 0 for the start positions alone.
        """
        return _reachable(self.start_positions(), self._dependencies(), depth)

    def dependents_of(self, name: NormalizedName, depth: int | None = None) -> frozenset[int]:
        """Return the positions of the packages of a name, and of all their dependents.

        :param depth: the number of steps; None: all.
        """
        starts = [position for position, entry in enumerate(self.packages) if entry.name == name]
        upwards = {
            position: [dependent for dependent, _ in branches]
            for position, branches in self.dependents().items()
        }
        return _reachable(starts, upwards, depth)

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "environments": list(self.environments),
            "requires_python": self.requires_python,
            "roots": None
            if self.roots is None
            else [
                {
                    "requirement": root.text,
                    "name": root.requirement.name,
                    "marker": _text(root.requirement.marker),
                    "packages": list(root.positions),
                }
                for root in self.roots
            ],
            "packages": [_package(package) for package in self.packages],
            "excluded": [{"name": name, "reason": reason} for name, reason in self.excluded],
            "notes": list(self.notes),
        }

    def _dependencies(self) -> Mapping[int, Sequence[int]]:
        """Return by the position of each package those of its dependencies."""
        return {
            number: [position for branch in package.branches for position in branch.positions]
            for number, package in enumerate(self.packages)
        }


def tree_of_lock(lock: Lock) -> Tree:
    """Return the tree of all packages any machine could get from a lock, with conditions."""
    positions = _positions_by_name(package.name for package in lock.packages)
    root_names = {root.name for root in lock.roots or ()}
    packages = tuple(
        _entry(lock, number, positions, requested=package.name in root_names)
        for number, package in enumerate(lock.packages)
    )
    roots = None
    if lock.roots is not None:
        roots = tuple(TreeRoot(root, positions.get(root.name, ())) for root in lock.roots)
    return _with_environments(lock, Tree(packages, roots, notes=tuple(_notes(packages, roots))))


def tree_of_selection(lock: Lock, selection: LockSelection) -> Tree:
    """Return the tree of the packages one machine gets from a lock."""
    positions = _positions_by_name(entry.package.name for entry in selection.chosen)
    packages = []
    for entry in selection.chosen:
        chosen = entry.choice.selection.chosen
        label = None if chosen is None else chosen.label
        branches = tuple(
            TreeBranch(name, (label,), by_all_wheels=True, positions=positions.get(name, ()))
            for name in sorted(entry.needs)
        )
        packages.append(
            TreePackage(
                entry.package.name,
                entry.package.version,
                entry.package.marker,
                (_label(entry.package, label),),
                branches,
                "by-label",
                entry.requested,
                chosen,
                entry.choice.reason,
            )
        )
    roots = None
    if selection.roots is not None:
        roots_of_lock = (TreeRoot(root, positions.get(root.name, ())) for root in selection.roots)
        roots = tuple(root for root in roots_of_lock if root.positions)
    excluded = tuple(sorted(selection.left_out.items()))
    return _with_environments(lock, Tree(tuple(packages), roots, excluded, selection.notes))


def _with_environments(lock: Lock, tree: Tree) -> Tree:
    python = lock.requires_python
    return replace(
        tree,
        environments=tuple(map(str, lock.environments)),
        requires_python=None if python is None else str(python),
    )


def _positions_by_name(names: Iterable[NormalizedName]) -> dict[NormalizedName, tuple[int, ...]]:
    positions: dict[NormalizedName, tuple[int, ...]] = {}
    for position, name in enumerate(names):
        positions[name] = (*positions.get(name, ()), position)
    return positions


def _entry(
    lock: Lock, number: int, positions: Mapping[NormalizedName, tuple[int, ...]], *, requested: bool
) -> TreePackage:
    package = lock.packages[number]
    labels = tuple(dict.fromkeys(wheel.filename.label for wheel in package.wheels))
    dependencies = _dependencies(lock, number, positions)
    branches = _by_label(package, labels, {**positions, **(dependencies or {})})
    granularity: Granularity = "by-label"
    if branches is None:
        branches, granularity = _by_release(labels, dependencies)
    return TreePackage(
        package.name,
        package.version,
        package.marker,
        tuple(_label(package, label) for label in labels),
        branches,
        granularity,
        requested,
    )


def _by_label(
    package: LockedPackage,
    labels: Sequence[Label | None],
    positions: Mapping[NormalizedName, tuple[int, ...]],
) -> tuple[TreeBranch, ...] | None:
    """Return the requirements by wheel; None if the lock lacks them for any wheel."""
    needs = package.needs
    if needs is None or any((label or "") not in needs for label in labels):
        return None
    labels_by_name: dict[NormalizedName, list[Label | None]] = {}
    for label in labels:
        for name in dict.fromkeys(requirement.name for requirement in needs[label or ""]):
            labels_by_name.setdefault(name, []).append(label)
    return tuple(
        TreeBranch(
            name,
            tuple(labels_of_name),
            by_all_wheels=len(labels_of_name) == len(labels),
            positions=positions.get(name, ()),
        )
        for name, labels_of_name in sorted(labels_by_name.items())
    )


def _by_release(
    labels: tuple[Label | None, ...], dependencies: Mapping[NormalizedName, tuple[int, ...]] | None
) -> tuple[tuple[TreeBranch, ...], Granularity]:
    """Return the requirements of an entry, not listed by wheel."""
    if dependencies is None:
        return (), "unknown"
    has_one_label = len(labels) < 2  # with several, the wheel that needs it is unknown
    branches = tuple(
        TreeBranch(name, labels, by_all_wheels=has_one_label, positions=positions)
        for name, positions in sorted(dependencies.items())
    )
    return branches, "by-label" if has_one_label else "by-release"


def _dependencies(
    lock: Lock, number: int, positions: Mapping[NormalizedName, tuple[int, ...]]
) -> dict[NormalizedName, tuple[int, ...]] | None:
    """Return the entries that ``packages.dependencies`` names (PEP 751); None: it has no such key.

    If a name has several entries, the key has the versions of the needed ones.
    """
    items = lock.entries[number].get("dependencies")
    if items is None:
        return None
    needed: dict[NormalizedName, dict[int, None]] = {}
    for item in items:
        name = canonicalize_name(str(item.get("name", "")))
        version = item.get("version")
        needed_positions = needed.setdefault(name, {})
        for position in positions.get(name, ()):
            if version is None or str(lock.packages[position].version) == str(version):
                needed_positions[position] = None
    return {name: tuple(needed_positions) for name, needed_positions in needed.items()}


def _label(package: LockedPackage, label: Label | None) -> TreeLabel:
    document = package.document
    if label is None or document is None:
        return TreeLabel(label, None, "")
    properties = document.properties(label)
    words = "" if properties is None else describe_condition(properties, document.providers)
    return TreeLabel(label, properties, words)


def _notes(packages: Sequence[TreePackage], roots: Sequence[TreeRoot] | None) -> Iterator[str]:
    if roots is None:
        yield "the lock does not record the requirements that it was made for"
    unknown = [package.name for package in packages if package.granularity == "unknown"]
    if unknown and len(unknown) == len(packages):
        yield "the lock does not record the requirements of its packages"
    elif unknown:
        names = ", ".join(dict.fromkeys(unknown))
        yield f"the lock does not record the requirements of {names}"
    by_release = [package.name for package in packages if package.granularity == "by-release"]
    if by_release:
        names = ", ".join(dict.fromkeys(by_release))
        yield f"the lock does not record which wheels of {names} have which requirements"


def _reachable(
    starts: Iterable[int],
    edges: Mapping[int, Sequence[int]],
    depth: int | None = None,
    excluded: Container[int] = (),
) -> frozenset[int]:
    """Return the positions reached from some, in at most ``depth`` steps; None: in any number."""
    steps = dict.fromkeys(starts, 0)
    pending = deque(steps)
    while pending:
        position = pending.popleft()
        if depth is not None and steps[position] >= depth:
            continue
        for neighbour in edges.get(position, ()):
            if neighbour not in steps and neighbour not in excluded:
                steps[neighbour] = steps[position] + 1
                pending.append(neighbour)
    return frozenset(steps)


def _package(package: TreePackage) -> dict[str, Any]:
    return {
        "name": package.name,
        "version": None if package.version is None else str(package.version),
        "marker": _text(package.marker),
        "requested": package.requested,
        "labels": [
            {
                "label": label.label,
                "properties": None
                if label.properties is None
                else list(map(str, label.properties)),
                "condition": label.condition or None,
            }
            for label in package.labels
        ],
        "dependencies_known": package.granularity,
        "dependencies": [
            {
                "name": branch.name,
                "labels": list(branch.labels),
                "always": branch.by_all_wheels,
                "packages": list(branch.positions),
            }
            for branch in package.branches
        ],
        "chosen": None
        if package.chosen is None
        else {
            "filename": package.chosen.text,
            "label": package.chosen.label,
            "reason": package.reason,
        },
    }


def _text(marker: Marker | None) -> str | None:
    return None if marker is None else str(marker)
