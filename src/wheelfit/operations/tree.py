"""Trees of dependencies in a lock, for every machine or for one."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.errors import UsageError
from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.locking.tree import Tree, tree_of_lock, tree_of_selection
from wheelfit.operations.lock_files import LockChoiceRequest, load_lock, open_lock
from wheelfit.operations.plain_data import plain_report
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from wheelfit.operations.context import Context
    from wheelfit.operations.machine import ChosenMachine


class TreeRequest(LockChoiceRequest):
    """The lock, the machine, and the part of the tree."""

    here: bool = False
    invert: str | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class TreeReport:
    """The dependencies in a lock."""

    lock: str
    """The path of the lock, as the user named it."""
    tree: Tree
    machine: ChosenMachine | None
    """The machine that the tree is for; None: every machine."""
    inverted: NormalizedName | None
    """The package whose dependents are shown; None: the dependencies of the roots are."""
    depth: int | None
    """Steps of the tree that are shown; None: all."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        tree = self.tree
        if self.inverted is not None:
            tree = tree.restricted_to(tree.dependents_of(self.inverted, self.depth))
        elif self.depth is not None:
            tree = tree.restricted_to(tree.reached_within(self.depth))
        all_machines: dict[str, object] = {"host": None, "overrides": []}
        return plain_report(
            self,
            "lock",
            target=None if self.machine is None else self.machine.name,
            **(all_machines if self.machine is None else self.machine.to_mapping()),
            **tree.to_mapping(),
        )


def tree(request: TreeRequest, context: Context) -> TreeReport:
    """Return the dependency tree of a lock.

    :raises UsageError: options contradict each other.
    :raises UserError: the package of ``--invert`` is not in the tree.
    :raises NoFit: the lock has no packages for the machine.
    """
    if request.here and request.host is not None:
        raise UsageError("--here and --for name two machines", hint="use one of them")
    machine: ChosenMachine | None = None
    if request.here or request.host is not None:
        dependency_tree, machine = _tree_of_machine(request, context)
    else:
        dependency_tree = _tree_of_all_machines(request, context)
    inverted = None if request.invert is None else canonicalize_name(request.invert)
    if inverted is not None:
        _check_known(dependency_tree, inverted, request.lock)
    return TreeReport(request.lock, dependency_tree, machine, inverted, request.depth)


def _tree_of_all_machines(request: TreeRequest, context: Context) -> Tree:
    if request.extra or request.group is not None:
        raise UsageError(
            "--extra and --group need one machine",
            hint="add --here or --for HOST; without them every extra and group is shown",
        )
    lock = load_lock(Path(request.lock), strict=request.strict)
    for note in lock.notes:
        context.reporter.warn(note)
    return tree_of_lock(lock)


def _tree_of_machine(request: TreeRequest, context: Context) -> tuple[Tree, ChosenMachine]:
    opened_lock = open_lock(request, context)
    with opened_lock.repository:
        machine = opened_lock.machine(request.host)
        stand_in = stand_in_of(opened_lock.path.absolute().parent)
        selection = opened_lock.candidates(machine, stand_in).select()
    return tree_of_selection(opened_lock.lock, selection), machine


def _check_known(tree: Tree, name: NormalizedName, lock: str) -> None:
    names = {str(package.name) for package in tree.packages}
    if name in names:
        return
    reason = dict(tree.excluded).get(name)
    close = get_close_matches(name, sorted(names), n=3)
    raise UserError(
        f"{name[:80]} is not in the tree",
        where=lock,
        note=reason,
        hint=f"did you mean {' or '.join(close)}?"
        if close
        else "`wheelfit tree` lists the packages of the lock",
    )
