"""Trees of dependencies, as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.operations.text import in_one_line
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output, Style
    from wheelfit.core.labels import Label
    from wheelfit.core.markers import Marker
    from wheelfit.locking.tree import Tree, TreeBranch, TreePackage, TreeRoot
    from wheelfit.operations.tree import TreeReport

_MAX_LABELS = 8
"""Labels that a line names without ``--verbose``."""
_MAX_LENGTH = 400
"""Characters of a line without ``--verbose``."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, and the lines below it."""

    text: str
    children: Callable[[], Sequence[_Node]] = tuple
    style: Style = "plain"
    is_step: bool = True
    """Whether it adds to the depth; a heading does not."""


_Node: TypeAlias = "Callable[[], _Line]"
"""A function that makes a line when it is printed, since it depends on earlier lines."""


def show_tree(report: TreeReport, output: Output) -> None:
    """Print the dependencies in a lock; those of one package are printed once."""
    if output.json:
        return
    tree, machine = report.tree, report.machine
    scope = "for all machines" if machine is None else f"for {machine.name}"
    output.result(f"{Path(report.lock).name}: {scope}", "strong")
    if machine is None:
        for condition in _conditions(tree):
            output.result(condition, "dim")
    if report.inverted is not None:
        _print(_InvertedTree(tree, output).start_nodes(report.inverted), output, report.depth)
    else:
        _print(_DependencyTree(tree, output).roots(), output, report.depth)
        for name, reason in tree.excluded:
            output.result(in_one_line(f"not installed: {name} ({reason})"), "dim")
    for note in tree.notes:
        output.warn(in_one_line(note))


def _conditions(tree: Tree) -> Iterator[str]:
    """Yield lines that name the Pythons and the environments that a lock is for."""
    if tree.requires_python is not None:
        yield in_one_line(f"for Python {tree.requires_python}")
    for marker in tree.environments:
        yield _shortened(in_one_line(f"for {marker}"))


def _print(nodes: Sequence[_Node], output: Output, depth: int | None) -> None:
    """Print lines, without recursion, since a lock may be of any depth."""
    pending = [(node, "", "", 0) for node in reversed(nodes)]
    while pending:
        node, head, margin, steps = pending.pop()
        line = node()
        text = in_one_line(line.text)
        text = text if output.verbosity > 0 else _shortened(text)
        output.result(f"{head}{text}", line.style)
        if depth is not None and line.is_step and steps >= depth:
            continue
        steps += line.is_step
        children = line.children()
        for number, child in reversed(list(enumerate(children))):
            is_last = number == len(children) - 1
            branch, indent = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            pending.append((child, margin + branch, margin + indent, steps))


def _shortened(text: str) -> str:
    """Return a line of readable length: a marker may be very long."""
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


class _TreeLines:
    """The lines of a tree; the dependencies of a package are printed once."""

    def __init__(self, tree: Tree, output: Output) -> None:
        self._tree = tree
        self._printed: set[int] = set()
        """The positions of packages whose dependencies, or dependents, were printed."""
        self._is_verbose = output.verbosity > 0

    def _title(self, package: TreePackage) -> str:
        title = str(package.name)
        if package.version is not None:
            title += f" {package.version}"
        if package.has_variants:
            title += f" ({self._labels([label.label for label in package.labels])})"
        if package.chosen is None and package.marker is not None:
            title += f"  {_condition(package.marker)}"
        if package.has_variants and package.reason:
            title += f"  {package.reason}"
        return title

    def _labels(self, labels: Iterable[Label | None], word: str = "or") -> str:
        names = [label or "plain wheel" for label in labels]
        if len(names) > _MAX_LABELS and not self._is_verbose:
            rest = len(names) - _MAX_LABELS
            return f"{', '.join(names[:_MAX_LABELS])} {word} {rest} more"
        return listed(names, word, most=None)

    def _wheels_with(self, package: TreePackage, branch: TreeBranch) -> str:
        """Return the wheels of a package that have a dependency, in words."""
        if package.granularity == "by-release":
            return "with some of its wheels"
        if len(branch.labels) == 1:
            (label,) = branch.labels
            conditions = (row.condition for row in package.labels if row.label == label)
            condition = next(conditions, "")
            return f"with {self._labels([label])}" + (f": {condition}" if condition else "")
        return f"with {self._labels(branch.labels)}"


class _DependencyTree(_TreeLines):
    """The tree from the roots to their dependencies."""

    def roots(self) -> Sequence[_Node]:
        tree = self._tree
        always: dict[int, None] = {}
        conditional: dict[str, dict[int, None]] = {}
        for root in tree.roots or ():
            marker = root.requirement.marker
            if marker is None or any(tree.packages[position].chosen for position in root.positions):
                always.update(dict.fromkeys(root.positions))
            else:
                conditional.setdefault(_condition(marker), {}).update(dict.fromkeys(root.positions))
        root_positions = set(always)
        nodes: list[_Node] = [partial(self._package, position) for position in always]
        for condition, positions in conditional.items():
            root_positions.update(positions)
            children = [
                partial(self._package, position) for position in positions if position not in always
            ]
            if children:
                nodes.append(_heading(condition, children))
        unrequested = (
            position for position in tree.start_positions() if position not in root_positions
        )
        return [*nodes, *(partial(self._package, position) for position in unrequested)]

    def _package(self, position: int) -> _Line:
        package = self._tree.packages[position]
        title = self._title(package)
        if position not in self._printed:
            return _Line(title, lambda: self._children(position))
        return _Line(f"{title}  (above)", style="dim") if package.branches else _Line(title)

    def _children(self, position: int) -> Sequence[_Node]:
        self._printed.add(position)
        package = self._tree.packages[position]
        groups: dict[str, list[TreeBranch]] = {}
        for branch in package.branches:
            words = "" if branch.by_all_wheels else self._wheels_with(package, branch)
            groups.setdefault(words, []).append(branch)
        nodes = list(self._entry_nodes(groups.pop("", ())))
        for words, branches in groups.items():
            nodes.append(_heading(words, list(self._entry_nodes(branches))))
        if package.granularity == "unknown" and self._has_dependencies:
            nodes.append(lambda: _Line("its dependencies are unknown", style="dim"))
        return nodes

    @cached_property
    def _has_dependencies(self) -> bool:
        return any(package.granularity != "unknown" for package in self._tree.packages)

    def _entry_nodes(self, branches: Iterable[TreeBranch]) -> Iterator[_Node]:
        for branch in branches:
            if not branch.positions:
                yield partial(_Line, f"{branch.name}  (not in the lock)", style="dim")
            for position in branch.positions:
                yield partial(self._package, position)


class _InvertedTree(_TreeLines):
    """The tree from a package to its dependents."""

    def __init__(self, tree: Tree, output: Output) -> None:
        super().__init__(tree, output)
        self._dependents = tree.dependents()
        self._roots_of: dict[int, list[TreeRoot]] = {}
        for root in tree.roots or ():
            for position in root.positions:
                self._roots_of.setdefault(position, []).append(root)

    def start_nodes(self, name: NormalizedName) -> Sequence[_Node]:
        packages = enumerate(self._tree.packages)
        return [
            partial(self._package, position)
            for position, package in packages
            if package.name == name
        ]

    def _package(self, position: int, branch: TreeBranch | None = None) -> _Line:
        package = self._tree.packages[position]
        title = self._title(package)
        if branch is not None and not branch.by_all_wheels:
            title += f"  {self._wheels_with(package, branch)}"
        if position not in self._printed:
            return _Line(title, lambda: self._parents(position))
        has_lines = position in self._dependents or position in self._roots_of
        return _Line(f"{title}  (above)", style="dim") if has_lines else _Line(title)

    def _parents(self, position: int) -> Sequence[_Node]:
        self._printed.add(position)
        roots = self._roots_of.get(position, ())
        dependents = self._dependents.get(position, ())
        return [
            *(partial(_Line, _root_line(root), style="dim") for root in roots),
            *(partial(self._package, dependent, branch) for dependent, branch in dependents),
        ]


def _root_line(root: TreeRoot) -> str:
    marker = root.requirement.marker
    return f"asked for: {root.text}" + (f"  {_condition(marker)}" if marker else "")


def _heading(words: str, children: Sequence[_Node]) -> _Node:
    return lambda: _Line(words, lambda: children, "strong", is_step=False)


_SELECTION = re.compile(r"""(["'])([^"']*)\1 in (extras|dependency_groups)""")
_SELECTION_KINDS = {"extras": "extra", "dependency_groups": "group"}


def _condition(marker: Marker) -> str:
    """Return a condition in words; an extra or a group by its name."""
    match = _SELECTION.fullmatch(str(marker))
    if match is not None:
        return f"with the {_SELECTION_KINDS[match[3]]} {match[2]}"
    return f"when {marker}"
