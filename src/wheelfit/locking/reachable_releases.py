"""Which releases an environment of a lock needs, and for which extras and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.locking.listed_wheels import ListedProject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.labels import Label
    from wheelfit.locking.listed_wheels import ListedEnvironment
    from wheelfit.locking.request import LockNeeds, Root

LabelsOf: TypeAlias = Callable[[ListedProject], Iterable["Label | None"]]
"""Returns the labels of a release whose needs count."""


def kinds_of(
    listed: ListedEnvironment, request: LockNeeds, labels_of: LabelsOf
) -> Mapping[NormalizedName, frozenset[str]]:
    """Return the markers of the extras and groups that need each project; none: always needed.

    :param listed: the packages of an environment.
    :param request: the request.
    :param labels_of: the labels that count.
    """
    roots: dict[str | None, list[Root]] = {}
    for root in listed.fork.roots(request):
        roots.setdefault(root.kind, []).append(root)
    reached = {kind: _reached(listed, request, of, labels_of) for kind, of in roots.items()}
    always = reached.pop(None, set())
    kinds: dict[NormalizedName, frozenset[str]] = dict.fromkeys(always, frozenset())
    for kind, names in reached.items():
        for name in names - always:
            kinds[name] = kinds.get(name, frozenset()) | {kind or ""}
    return kinds


def either(known: frozenset[str] | None, asked: frozenset[str]) -> frozenset[str]:
    """Return when a project is needed by one of two machines that no marker distinguishes.

    :param known: the markers of one; None: it does not need the project.
    :param asked: the markers of the other; none: it always does.
    """
    if known is None:
        return asked
    return known | asked if known and asked else frozenset()


def _reached(
    listed: ListedEnvironment, request: LockNeeds, roots: Iterable[Root], labels_of: LabelsOf
) -> set[NormalizedName]:
    """Return the direct and indirect requirements of some roots."""
    target = listed.environment.target
    pending: list[tuple[NormalizedName, NormalizedName | None]] = []
    for root in roots:
        if root.requirement.applies(target.environment):
            for first in request.instead(root.requirement, target):
                pending += [(first.name, extra) for extra in (None, *first.extras)]
    seen: set[tuple[NormalizedName, NormalizedName | None]] = set()
    while pending:
        name, extra = node = pending.pop()
        part = listed.parts.get(name)
        if node in seen or part is None:
            continue
        seen.add(node)
        for label in labels_of(part):
            for asked_by, written in part.needs.get(label, ()):
                if asked_by == extra:
                    for needed in request.instead(written, target):
                        pending += [(needed.name, more) for more in (None, *needed.extras)]
    return {name for name, _ in seen}
