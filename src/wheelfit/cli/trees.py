"""Trees of packages as people read them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.cli.output import in_one_line
from wheelfit.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output, Style
    from wheelfit.core.labels import Label
    from wheelfit.core.markers import Marker
    from wheelfit.lock.tree import Branch, Root, Tree, TreePackage

_MOST_LABELS = 8
"""Labels that a line names, unless everything is wanted."""
_LONGEST = 400
"""Characters of a line, unless everything is wanted."""


@dataclass(frozen=True, slots=True)
class _Line:
    """Hold one line, and what hangs below it."""

    text: str
    below: Callable[[], Sequence[_Node]] = tuple
    style: Style = "plain"
    is_step: bool = True
    """Whether it counts for the depth; a heading does not."""


_Node: TypeAlias = "Callable[[], _Line]"
"""Makes its line when its turn comes: only then it is known what was told before."""


def made_for(tree: Tree) -> Iterator[str]:
    """Yield lines that say where a lock can be used at all.

    :param tree: of the lock.
    """
    if tree.requires_python is not None:
        yield in_one_line(f"for Python {tree.requires_python}")
    for marker in tree.environments:
        yield _shortened(in_one_line(f"for {marker}"))


def print_tree(tree: Tree, output: Output, depth: int | None = None) -> None:
    """Print what needs what, from what was asked for down; what is shared is told once.

    :param tree: what to print.
    :param output: where to.
    :param depth: how many steps down; None: all.
    """
    drawing = _Downwards(tree, output)
    _print(drawing.roots(), output, depth)


def print_inverted(
    tree: Tree, name: NormalizedName, output: Output, depth: int | None = None
) -> None:
    """Print who needs a package, up to what was asked for.

    :param tree: what to print.
    :param name: of the package.
    :param output: where to.
    :param depth: how many steps up; None: all.
    """
    drawing = _Upwards(tree, output)
    _print(drawing.starts(name), output, depth)


def _print(nodes: Sequence[_Node], output: Output, depth: int | None) -> None:
    """Print lines; without recursion, for a lock may be as deep as it likes."""
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
        below = line.below()
        for number, one in reversed(list(enumerate(below))):
            is_last = number == len(below) - 1
            branch, more = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            pending.append((one, margin + branch, margin + more, steps))


def _shortened(text: str) -> str:
    """Cut what is longer than anybody reads: a marker may be as long as a book."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class _Drawing:
    """Write packages of a tree; each tells what it needs only once."""

    def __init__(self, tree: Tree, output: Output) -> None:
        self._tree = tree
        self._told: set[int] = set()
        self._everything = output.verbosity > 0

    def _title(self, package: TreePackage) -> str:
        title = str(package.name)
        if package.version is not None:
            title += f" {package.version}"
        if package.has_variants:
            title += f" ({self._labels([one.label for one in package.labels])})"
        if package.chosen is None and package.marker is not None:
            title += f"  {_when(package.marker)}"
        if package.has_variants and package.reason:
            title += f"  {package.reason}"
        return title

    def _labels(self, labels: Iterable[Label | None], word: str = "or") -> str:
        names = [label or "plain wheel" for label in labels]
        if len(names) > _MOST_LABELS and not self._everything:
            left = len(names) - _MOST_LABELS
            return f"{', '.join(names[:_MOST_LABELS])} {word} {left} more"
        return listed(names, word, most=None)

    def _with(self, package: TreePackage, branch: Branch) -> str:
        """Say with which wheels of a package there is a need."""
        if package.known == "by-release":
            return "with some of its wheels"
        if len(branch.labels) == 1:
            (label,) = branch.labels
            words = next((one.condition for one in package.labels if one.label == label), "")
            return f"with {self._labels([label])}" + (f": {words}" if words else "")
        return f"with {self._labels(branch.labels)}"


class _Downwards(_Drawing):
    def roots(self) -> Sequence[_Node]:
        tree = self._tree
        always: dict[int, None] = {}
        conditional: dict[str, dict[int, None]] = {}
        for root in tree.roots or ():
            marker = root.requirement.marker
            if marker is None or any(tree.packages[entry].chosen for entry in root.entries):
                always.update(dict.fromkeys(root.entries))
            else:
                conditional.setdefault(_when(marker), {}).update(dict.fromkeys(root.entries))
        asked = set(always)
        shown: list[_Node] = [partial(self._package, entry) for entry in always]
        for words, entries in conditional.items():
            asked.update(entries)
            nodes = [partial(self._package, entry) for entry in entries if entry not in always]
            if nodes:
                shown.append(_heading(words, nodes))
        free = (entry for entry in tree.starts() if entry not in asked)
        return [*shown, *(partial(self._package, entry) for entry in free)]

    def _package(self, number: int) -> _Line:
        package = self._tree.packages[number]
        title = self._title(package)
        if number not in self._told:
            return _Line(title, lambda: self._below(number))
        return _Line(f"{title}  (above)", style="dim") if package.branches else _Line(title)

    def _below(self, number: int) -> Sequence[_Node]:
        self._told.add(number)
        package = self._tree.packages[number]
        groups: dict[str, list[Branch]] = {}
        for branch in package.branches:
            words = "" if branch.always else self._with(package, branch)
            groups.setdefault(words, []).append(branch)
        nodes = list(self._needed(groups.pop("", ())))
        for words, branches in groups.items():
            nodes.append(_heading(words, list(self._needed(branches))))
        if package.known == "unknown" and self._tells_something:
            nodes.append(lambda: _Line("what it needs is not known", style="dim"))
        return nodes

    @cached_property
    def _tells_something(self) -> bool:
        return any(one.known != "unknown" for one in self._tree.packages)

    def _needed(self, branches: Iterable[Branch]) -> Iterator[_Node]:
        for branch in branches:
            if not branch.entries:
                yield partial(_Line, f"{branch.name}  (not in the lock)", style="dim")
            for entry in branch.entries:
                yield partial(self._package, entry)


class _Upwards(_Drawing):
    def __init__(self, tree: Tree, output: Output) -> None:
        super().__init__(tree, output)
        self._needing = tree.needed_by()
        self._asked: dict[int, list[Root]] = {}
        for root in tree.roots or ():
            for entry in root.entries:
                self._asked.setdefault(entry, []).append(root)

    def starts(self, name: NormalizedName) -> Sequence[_Node]:
        packages = enumerate(self._tree.packages)
        return [partial(self._package, number) for number, one in packages if one.name == name]

    def _package(self, number: int, branch: Branch | None = None) -> _Line:
        package = self._tree.packages[number]
        title = self._title(package)
        if branch is not None and not branch.always:
            title += f"  {self._with(package, branch)}"
        if number not in self._told:
            return _Line(title, lambda: self._above(number))
        tells = number in self._needing or number in self._asked
        return _Line(f"{title}  (above)", style="dim") if tells else _Line(title)

    def _above(self, number: int) -> Sequence[_Node]:
        self._told.add(number)
        asked: list[_Node] = [
            partial(_Line, _asked(root), style="dim") for root in self._asked.get(number, ())
        ]
        needing = self._needing.get(number, ())
        return [*asked, *(partial(self._package, entry, branch) for entry, branch in needing)]


def _asked(root: Root) -> str:
    marker = root.requirement.marker
    return f"asked for: {root.words}" + (f"  {_when(marker)}" if marker else "")


def _heading(words: str, below: Sequence[_Node]) -> _Node:
    return lambda: _Line(words, lambda: below, "strong", is_step=False)


_PART = re.compile(r"""(["'])([^"']*)\1 in (extras|dependency_groups)""")
_PARTS = {"extras": "extra", "dependency_groups": "group"}


def _when(marker: Marker) -> str:
    """Write a condition; what a lock calls a member of a set, people call by its name."""
    found = _PART.fullmatch(str(marker))
    if found is not None:
        return f"with the {_PARTS[found[3]]} {found[2]}"
    return f"when {marker}"
