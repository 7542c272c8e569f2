"""The dependency tree of a lock: for every machine, with conditions, or for one machine.

A lock lists the requirements of each wheel of a release by its label. They are not merged: a
requirement of only some labels stays with those labels, and unlisted ones are unknown.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import structs
from packaging.utils import canonicalize_name

from wheelfit.core.phrases import describe_condition
from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.labels import Label
    from wheelfit.core.markers import Marker
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.requirements import Requirement
    from wheelfit.locking.document import Lock, LockedPackage
    from wheelfit.locking.selection import LockSelection

Knowledge: TypeAlias = Literal["by-label", "by-release", "unknown"]
"""Whether it is known what each wheel of an entry needs, or only what some of them need."""


@dataclass(frozen=True, slots=True)
class TreeBranch:
    """One requirement of a package, and the labels of the wheels that have it."""

    name: NormalizedName
    """The name of the needed project."""
    labels: tuple[Label | None, ...]
    """Of the wheels that need it; None is the plain wheel."""
    always: bool
    """Whether every wheel of the entry needs it."""
    entries: tuple[int, ...]
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
    known: Knowledge
    requested: bool = False
    """Whether it is a root of the lock, not only a dependency."""
    chosen: WheelFilename | None = None
    """The wheel that the machine gets; None in the tree for all machines."""
    reason: str = ""
    """Why that wheel, in words."""

    @property
    def has_variants(self) -> bool:
        """Whether any wheel has a label."""
        return any(label.label is not None for label in self.labels)


@dataclass(frozen=True, slots=True)
class TreeRoot:
    """A requirement that a lock was made for."""

    requirement: Requirement
    entries: tuple[int, ...]
    """The positions of its packages in `Tree.packages`."""

    @property
    def words(self) -> str:
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

    def starts(self) -> tuple[int, ...]:
        """Return the packages to start from so that every package is reached.

        First the roots of the lock, then packages that no package reached so far needs.
        """
        first = dict.fromkeys(entry for root in self.roots or () for entry in root.entries)
        needed = {entry for package in self.packages for entry in _below(package)}
        unneeded = (number for number in range(len(self.packages)) if number not in needed)
        starts = list(dict.fromkeys((*first, *unneeded)))
        downwards = self._dependencies()
        reached = set(_reachable(starts, downwards))
        for number in range(len(self.packages)):  # a cycle that no other package needs
            if number not in reached:
                starts.append(number)
                reached |= _reachable([number], downwards, known=reached)
        return tuple(starts)

    def needed_by(self) -> dict[int, tuple[tuple[int, TreeBranch], ...]]:
        """Return the dependents of each package, with the branch."""
        needing_by_entry: dict[int, list[tuple[int, TreeBranch]]] = {}
        for number, package in enumerate(self.packages):
            for branch in package.branches:
                for entry in branch.entries:
                    needing_by_entry.setdefault(entry, []).append((number, branch))
        return {entry: tuple(needing) for entry, needing in needing_by_entry.items()}

    def only(self, places: Iterable[int]) -> Tree:
        """Return the tree of some packages, without branches to others.

        :param places: the positions of the packages to keep.
        """
        kept = sorted(set(places))
        new_positions = {old: number for number, old in enumerate(kept)}

        def moved(entries: Iterable[int]) -> tuple[int, ...]:
            return tuple(new_positions[entry] for entry in entries if entry in new_positions)

        packages = tuple(
            replace(
                self.packages[old],
                branches=tuple(
                    replace(branch, entries=moved(branch.entries))
                    for branch in self.packages[old].branches
                    if moved(branch.entries) or not branch.entries
                ),
            )
            for old in kept
        )
        roots = self.roots
        if roots is not None:
            remaining = (replace(root, entries=moved(root.entries)) for root in roots)
            roots = tuple(root for root in remaining if root.entries)
        return replace(self, packages=packages, roots=roots)

    def within(self, depth: int) -> frozenset[int]:
        """Return the packages reached within a number of steps.

        :param depth: the number of steps; 0 for the roots alone.
        """
        return _reachable(self.starts(), self._dependencies(), depth)

    def above(self, name: NormalizedName, depth: int | None = None) -> frozenset[int]:
        """Return the packages of a name, and all their dependents.

        :param name: the name.
        :param depth: the number of steps; None: all.
        """
        start = [number for number, package in enumerate(self.packages) if package.name == name]
        needing = self.needed_by()
        upwards = {entry: [number for number, _ in branches] for entry, branches in needing.items()}
        return _reachable(start, upwards, depth)

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "environments": list(self.environments),
            "requires_python": self.requires_python,
            "roots": None
            if self.roots is None
            else [
                {
                    "requirement": root.words,
                    "name": root.requirement.name,
                    "marker": _text(root.requirement.marker),
                    "packages": list(root.entries),
                }
                for root in self.roots
            ],
            "packages": [_package(package) for package in self.packages],
            "excluded": [{"name": name, "reason": reason} for name, reason in self.excluded],
            "notes": list(self.notes),
        }

    def _dependencies(self) -> Mapping[int, Sequence[int]]:
        return {number: _below(package) for number, package in enumerate(self.packages)}


def tree_of_all(lock: Lock) -> Tree:
    """Return the tree of all packages any machine could get from a lock, with conditions.

    :param lock: the lock.
    """
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


def tree_of_one(lock: Lock, selection: LockSelection) -> Tree:
    """Return the tree of the packages one machine gets from a lock.

    :param lock: the lock.
    :param selection: the packages chosen for the machine.
    """
    positions = _positions_by_name(entry.package.name for entry in selection.chosen)
    packages = []
    for entry in selection.chosen:
        chosen = entry.choice.selection.chosen
        label = None if chosen is None else chosen.label
        branches = tuple(
            TreeBranch(name, (label,), always=True, entries=positions.get(name, ()))
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
        roots = tuple(root for root in roots_of_lock if root.entries)
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
    numbers: dict[NormalizedName, tuple[int, ...]] = {}
    for number, name in enumerate(names):
        numbers[name] = (*numbers.get(name, ()), number)
    return numbers


def _entry(
    lock: Lock, number: int, places: Mapping[NormalizedName, tuple[int, ...]], *, requested: bool
) -> TreePackage:
    package = lock.packages[number]
    labels = tuple(dict.fromkeys(wheel.filename.label for wheel in package.wheels))
    listed = _listed(lock, number, places)
    branches = _by_label(package, labels, {**places, **(listed or {})})
    known: Knowledge = "by-label"
    if branches is None:
        branches, known = _by_release(labels, listed)
    return TreePackage(
        package.name,
        package.version,
        package.marker,
        tuple(_label(package, label) for label in labels),
        branches,
        known,
        requested,
    )


def _by_label(
    package: LockedPackage,
    labels: Sequence[Label | None],
    places: Mapping[NormalizedName, tuple[int, ...]],
) -> tuple[TreeBranch, ...] | None:
    """Return the requirements by wheel; None if the lock lacks them for any wheel."""
    needs = package.needs
    if needs is None or any((label or "") not in needs for label in labels):
        return None
    needing: dict[NormalizedName, list[Label | None]] = {}
    for label in labels:
        for name in dict.fromkeys(requirement.name for requirement in needs[label or ""]):
            needing.setdefault(name, []).append(label)
    return tuple(
        TreeBranch(
            name, tuple(labels_needing), len(labels_needing) == len(labels), places.get(name, ())
        )
        for name, labels_needing in sorted(needing.items())
    )


def _by_release(
    labels: tuple[Label | None, ...], listed: Mapping[NormalizedName, tuple[int, ...]] | None
) -> tuple[tuple[TreeBranch, ...], Knowledge]:
    """Return the requirements of an entry, not listed by wheel."""
    if listed is None:
        return (), "unknown"
    always = len(labels) < 2  # with several, the wheel that needs it is unknown
    branches = tuple(
        TreeBranch(name, labels, always, entries) for name, entries in sorted(listed.items())
    )
    return branches, "by-label" if always else "by-release"


def _listed(
    lock: Lock, number: int, places: Mapping[NormalizedName, tuple[int, ...]]
) -> dict[NormalizedName, tuple[int, ...]] | None:
    """Return the entries that ``packages.dependencies`` names (PEP 751); None: it has no such key.

    A name may have several entries; the table names the version of the one meant.
    """
    needed = lock.entries[number].get("dependencies")
    if needed is None:
        return None
    numbers: dict[NormalizedName, dict[int, None]] = {}
    for dependency in needed:
        name = canonicalize_name(str(dependency.get("name", "")))
        version = dependency.get("version")
        entries = numbers.setdefault(name, {})
        for entry in places.get(name, ()):
            if version is None or str(lock.packages[entry].version) == str(version):
                entries[entry] = None
    return {name: tuple(entries) for name, entries in numbers.items()}


def _label(package: LockedPackage, label: Label | None) -> TreeLabel:
    document = package.document
    if label is None or document is None:
        return TreeLabel(label, None, "")
    properties = document.properties(label)
    words = "" if properties is None else describe_condition(properties, document.providers)
    return TreeLabel(label, properties, words)


def _notes(packages: Sequence[TreePackage], roots: Sequence[TreeRoot] | None) -> Iterator[str]:
    if roots is None:
        yield "the lock does not say what it was made for"
    unknown = [package.name for package in packages if package.known == "unknown"]
    if unknown and len(unknown) == len(packages):
        yield "the lock does not say what any of its packages needs"
    elif unknown:
        yield f"the lock does not say what these need: {', '.join(dict.fromkeys(unknown))}"
    vague = [package.name for package in packages if package.known == "by-release"]
    if vague:
        yield (
            "the lock does not say which of their wheels need what: "
            f"{', '.join(dict.fromkeys(vague))}"
        )


def _below(package: TreePackage) -> tuple[int, ...]:
    return tuple(entry for branch in package.branches for entry in branch.entries)


def _reachable(
    starts: Iterable[int],
    edges: Mapping[int, Sequence[int]],
    depth: int | None = None,
    known: Container[int] = (),
) -> frozenset[int]:
    """Return the packages that are reached from some, without known ones."""
    reached = dict.fromkeys(starts, 0)
    pending = deque(reached)
    while pending:
        place = pending.popleft()
        if depth is not None and reached[place] >= depth:
            continue
        for following in edges.get(place, ()):
            if following not in reached and following not in known:
                reached[following] = reached[place] + 1
                pending.append(following)
    return frozenset(reached)


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
                else [str(p) for p in label.properties],
                "condition": label.condition or None,
            }
            for label in package.labels
        ],
        "dependencies_known": package.known,
        "dependencies": [
            {
                "name": branch.name,
                "labels": list(branch.labels),
                "always": branch.always,
                "packages": list(branch.entries),
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
