"""Show what needs what in a lock: for every machine, or for one.

Without --for and --here everything is shown that any machine could get, with the labels, markers,
extras and groups on which it depends. With them it is exactly what that machine gets, and why. What
several packages need is told once; further down it says (above).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.locking import TREE
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import LOCK_FILE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output
    from wheelfit.lock.tree import Tree
    from wheelfit.operations.machine import ChosenMachine


OPTIONS = (LOCK_FILE, TREE, ENVIRONMENT, SOURCES, MACHINE, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show the tree."""
    from pathlib import Path

    from packaging.utils import canonicalize_name

    from wheelfit.cli.trees import made_for
    from wheelfit.errors import UsageError

    if arguments.here and arguments.host is not None:
        raise UsageError("--here and --for name two machines", hint="give one of them")
    if arguments.here or arguments.host is not None:
        tree, machine = _of_one(arguments, output, environ)
    else:
        tree, machine = _of_all(arguments, output), None
    name = None if arguments.invert is None else canonicalize_name(arguments.invert)
    if name is not None:
        _check_known(tree, name, arguments.lock)
    _print_json(arguments, output, tree, machine, name)
    if not output.json:
        what = "everything any machine could get" if machine is None else f"for {machine.name}"
        output.result(f"{Path(arguments.lock).name}: {what}", "strong")
        if machine is None:
            for condition in made_for(tree):
                output.result(condition, "dim")
        _print(arguments, output, tree, name)
    return 0


def _of_all(arguments: Namespace, output: Output) -> Tree:
    from pathlib import Path

    from wheelfit.errors import UsageError
    from wheelfit.lock.tree import tree_of_all
    from wheelfit.operations.locks import load_lock

    if arguments.extra or arguments.group is not None:
        raise UsageError(
            "--extra and --group belong to one machine",
            hint="add --here or --for HOST; without them every extra and group is shown",
        )
    lock = load_lock(Path(arguments.lock), strict=arguments.strict)
    for note in lock.notes:
        output.warn(note)
    return tree_of_all(lock)


def _of_one(
    arguments: Namespace, output: Output, environ: Mapping[str, str]
) -> tuple[Tree, ChosenMachine]:
    from wheelfit.lock.tree import tree_of_one
    from wheelfit.operations.locks import open_lock

    opened = open_lock(arguments, environ, output)
    with opened.repository:
        machine = opened.machine(arguments.host)
        selection = opened.candidates(machine).select()
    return tree_of_one(opened.lock, selection), machine


def _check_known(tree: Tree, name: NormalizedName, lock: str) -> None:
    from difflib import get_close_matches

    from wheelfit.errors import UserError

    names = {str(package.name) for package in tree.packages}
    if name in names:
        return
    reason = dict(tree.left_out).get(name)
    close = get_close_matches(name, sorted(names), n=3)
    raise UserError(
        f"{name[:80]} is not among the packages",
        where=lock,
        note=reason,
        hint=f"did you mean {' or '.join(close)}?" if close else None,
    )


def _print_json(
    arguments: Namespace,
    output: Output,
    tree: Tree,
    machine: ChosenMachine | None,
    name: NormalizedName | None,
) -> None:
    if name is not None:
        tree = tree.only(tree.above(name, arguments.depth))
    elif arguments.depth is not None:
        tree = tree.only(tree.within(arguments.depth))
    nobody: dict[str, object] = {"host": None, "overrides": []}
    output.result_json(
        {
            "version": 1,
            "lock": arguments.lock,
            "target": None if machine is None else machine.name,
            **(nobody if machine is None else machine.to_mapping()),
            **tree.to_mapping(),
        }
    )


def _print(arguments: Namespace, output: Output, tree: Tree, name: NormalizedName | None) -> None:
    from wheelfit.cli.output import in_one_line
    from wheelfit.cli.trees import print_inverted, print_tree

    if name is not None:
        print_inverted(tree, name, output, arguments.depth)
    else:
        print_tree(tree, output, arguments.depth)
        for left, reason in tree.left_out:
            output.result(in_one_line(f"not there: {left} ({reason})"), "dim")
    for note in tree.notes:
        output.warn(in_one_line(note))
