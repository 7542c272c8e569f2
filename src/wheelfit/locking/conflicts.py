"""Conflicting extras and groups: resolved separately, distinguished by markers.

At most one member of a conflict may be requested. So each environment is resolved once for each
choice of one member of every conflict, a *fork*, which leaves out the other members. If no member
of a conflict is requested, the fork of its first member applies.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from wheelfit.errors import UsageError
from wheelfit.locking.fork import Fork
from wheelfit.locking.reachable_releases import either

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.locking.conditions import Place

Conflict = tuple[str, ...]
"""The members, as markers of a lock: ``'cpu' in extras``."""
MOST_FORKS = 64
"""The most forks, and so resolutions of one environment."""


def forks_of(conflicts: Sequence[Conflict]) -> tuple[Fork, ...]:
    """Return every fork; a single one that leaves nothing out if there are no conflicts.

    :param conflicts: the conflicts.
    :raises UsageError: there are too many.
    """
    count = 1
    for conflict in conflicts:
        count *= len(conflict)
        if count > MOST_FORKS:
            raise UsageError(
                f"the conflicts come to more than {MOST_FORKS} combinations",
                hint="join conflicts that have members in common, or lock fewer extras and groups "
                "with --extra and --group",
            )
    unions: dict[frozenset[str], None] = {}
    for choice in product(*conflicts):
        others = [
            {*conflict} - {member} for conflict, member in zip(conflicts, choice, strict=True)
        ]
        unions[frozenset().union(*others)] = None
    # A fork that leaves out a superset of another one is never needed.
    minimal = [union for union in unions if not any(other < union for other in unions)]
    return tuple(
        Fork(left_out, tuple(_condition(left_out, minimal[:number], conflicts)))
        for number, left_out in enumerate(minimal)
    )


def _condition(
    left_out: frozenset[str], earlier: Sequence[frozenset[str]], conflicts: Sequence[Conflict]
) -> Iterator[str]:
    """Yield the markers that hold where a fork is the first one with the requested members.

    Conditions implied by "at most one member of each conflict" are omitted.

    :param left_out: the members the fork leaves out.
    :param earlier: the members each earlier fork leaves out; one of each must be requested.
    """
    requested = [tuple(sorted(members - left_out)) for members in earlier]
    single = dict.fromkeys(members[0] for members in requested if len(members) == 1)
    yield from single
    for members_of_fork in dict.fromkeys(requested):
        if not single.keys() & {*members_of_fork}:
            yield f"({' or '.join(members_of_fork)})"
    for member in sorted(left_out):
        if not any(member in conflict and single.keys() & {*conflict} for conflict in conflicts):
            yield member.replace("' in ", "' not in ")


class Kinds:
    """The condition of a release: the extras and groups that require it, by place and fork.

    :param forks: all forks.
    """

    def __init__(self, forks: Iterable[Fork]) -> None:
        self._forks = tuple(dict.fromkeys(forks))
        self._kinds: dict[Place, dict[Fork, frozenset[str]]] = {}

    def add(self, place: Place, fork: Fork, kinds: frozenset[str]) -> None:
        """Add the extras and groups that require the release.

        :param kinds: markers of which one must hold; none: it always applies.
        """
        forks = self._kinds.setdefault(place, {})
        forks[fork] = either(forks.get(fork), kinds)

    def by_place(self) -> Mapping[Place, frozenset[str]]:
        """Return by place the markers of which one must hold; none: it always applies."""
        return {place: self._joined(kinds_by_fork) for place, kinds_by_fork in self._kinds.items()}

    def _joined(self, kinds_by_fork: Mapping[Fork, frozenset[str]]) -> frozenset[str]:
        terms: set[str] = set()
        always = frozenset([""])
        for kind in frozenset().union(*(kinds or always for kinds in kinds_by_fork.values())):
            with_kind = [fork for fork, kinds in kinds_by_fork.items() if kind in (kinds or always)]
            allowed = [fork for fork in self._forks if kind not in fork.left_out]
            if len(with_kind) == len(allowed):
                if not kind:
                    return frozenset()
                terms.add(kind)
            else:
                terms |= {_both(kind, fork.condition) for fork in with_kind}
        return frozenset(terms)


def _both(kind: str, condition: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(filter(None, (kind, *condition))))
