"""The releases that an environment of a lock needs, and the extras and groups that need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.locking.listed_wheels import ListedEnvironment, ListedProject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.labels import Label
    from wheelfit.core.requirements import Requirement
    from wheelfit.locking.request import LockNeeds, Root

LabelsOf: TypeAlias = Callable[[ListedProject], Iterable["Label | None"]]
"""A function that returns, for a release, the labels of the wheels whose requirements count."""


def markers_by_project(
    listed: ListedEnvironment, request: LockNeeds, labels_of: LabelsOf
) -> Mapping[NormalizedName, frozenset[str]]:
    """Return the markers of the extras and groups that need each project; none: always."""
    roots_by_marker: dict[str | None, list[Root]] = {}
    for root in listed.fork.roots(request):
        roots_by_marker.setdefault(root.request_marker, []).append(root)
    names_by_marker = {
        marker: _reached(listed, request, roots, labels_of)
        for marker, roots in roots_by_marker.items()
    }
    always_needed = names_by_marker.pop(None, set())
    markers_by_name: dict[NormalizedName, frozenset[str]] = dict.fromkeys(
        always_needed, frozenset()
    )
    for marker, names in names_by_marker.items():
        for name in names - always_needed:
            markers_by_name[name] = markers_by_name.get(name, frozenset()) | {marker or ""}
    return markers_by_name


def combine_markers(first: frozenset[str] | None, second: frozenset[str]) -> frozenset[str]:
    """Return the markers under which at least one of two machines needs a project.

    :param first: the markers of one machine; None: it does not need the project.
    :param second: the markers of the other; empty: it always needs the project.
    """
    if first is None:
        return second
    is_always_needed = not first or not second
    return frozenset() if is_always_needed else first | second


def _reached(
    listed: ListedEnvironment, request: LockNeeds, roots: Iterable[Root], labels_of: LabelsOf
) -> set[NormalizedName]:
    """Return the direct and indirect requirements of some roots."""
    target = listed.environment.target
    pending: list[tuple[NormalizedName, NormalizedName | None]] = []

    def add(requirement: Requirement) -> None:
        for needed in request.effective_requirements(requirement, target):
            pending.extend((needed.name, extra) for extra in (None, *needed.extras))

    for root in roots:
        if root.requirement.applies(target.environment):
            add(root.requirement)
    seen: set[tuple[NormalizedName, NormalizedName | None]] = set()
    while pending:
        name, extra = node = pending.pop()
        project = listed.projects.get(name)
        if node in seen or project is None:
            continue
        seen.add(node)
        for label in labels_of(project):
            for requiring_extra, requirement in project.needs.get(label, ()):
                if requiring_extra == extra:
                    add(requirement)
    return {name for name, _ in seen}
