"""The releases that an environment of a lock needs, and the extras and groups that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.locking.listed_wheels import ListedProject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.labels import Label
    from wheelfit.core.requirements import Requirement
    from wheelfit.locking.listed_wheels import ListedEnvironment
    from wheelfit.locking.request import LockNeeds, Root

LabelsOf: TypeAlias = Callable[[ListedProject], Iterable["Label | None"]]
"""Returns the labels of a release whose requirements count."""


def kinds_of(
    listed: ListedEnvironment, request: LockNeeds, labels_of: LabelsOf
) -> Mapping[NormalizedName, frozenset[str]]:
    """Return the markers of the extras and groups that need each project; an empty set: always.

    :param listed: the packages of an environment.
    :param request: the locked requirements, with overrides and exclusions.
    :param labels_of: the labels that count.
    """
    roots: dict[str | None, list[Root]] = {}
    for root in listed.fork.roots(request):
        roots.setdefault(root.kind, []).append(root)
    names_by_kind = {
        kind: _reached(listed, request, roots_of_kind, labels_of)
        for kind, roots_of_kind in roots.items()
    }
    always = names_by_kind.pop(None, set())
    kinds: dict[NormalizedName, frozenset[str]] = dict.fromkeys(always, frozenset())
    for kind, names in names_by_kind.items():
        for name in names - always:
            kinds[name] = kinds.get(name, frozenset()) | {kind or ""}
    return kinds


def either(first: frozenset[str] | None, second: frozenset[str]) -> frozenset[str]:
    """Return the markers under which at least one of two machines needs a project.

    :param first: the markers of one machine; None: it does not need the project.
    :param second: the markers of the other; empty: it always needs the project.
    """
    if first is None:
        return second
    return first | second if first and second else frozenset()


def _reached(
    listed: ListedEnvironment, request: LockNeeds, roots: Iterable[Root], labels_of: LabelsOf
) -> set[NormalizedName]:
    """Return the direct and indirect requirements of some roots."""
    target = listed.environment.target
    pending: list[tuple[NormalizedName, NormalizedName | None]] = []

    def add(requirement: Requirement) -> None:
        for needed in request.apply_to(requirement, target):
            pending.extend((needed.name, extra) for extra in (None, *needed.extras))

    for root in roots:
        if root.requirement.applies(target.environment):
            add(root.requirement)
    seen: set[tuple[NormalizedName, NormalizedName | None]] = set()
    while pending:
        name, extra = node = pending.pop()
        project = listed.parts.get(name)
        if node in seen or project is None:
            continue
        seen.add(node)
        for label in labels_of(project):
            for requiring_extra, requirement in project.needs.get(label, ()):
                if requiring_extra == extra:
                    add(requirement)
    return {name for name, _ in seen}
