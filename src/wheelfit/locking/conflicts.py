"""Conflicting extras and groups: resolved separately, distinguished by markers.

Of a conflict at most one member may be requested. So each environment is resolved once for every
choice of members, a *fork*. In each fork the other members are left out; where no member of a
conflict is requested, the fork of its first member holds.
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
"""Members, as the markers of a lock for them: ``'cpu' in extras``."""
MOST_FORKS = 64
"""How often one environment is resolved, at most."""


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
    for kept in product(*conflicts):
        others = [{*conflict} - {one} for conflict, one in zip(conflicts, kept, strict=True)]
        unions[frozenset().union(*others)] = None
    # What leaves out more than another is needed nowhere.
    least = [one for one in unions if not any(other < one for other in unions)]
    return tuple(
        Fork(one, tuple(_condition(one, least[:place], conflicts)))
        for place, one in enumerate(least)
    )


def _condition(
    left_out: frozenset[str], earlier: Sequence[frozenset[str]], conflicts: Sequence[Conflict]
) -> Iterator[str]:
    """Yield the markers that hold where a fork is the first one with the requested members.

    Implied conditions are left out, since at most one member of each conflict is requested.

    :param left_out: the members the fork leaves out.
    :param earlier: the members earlier forks leave out; of each, one must be requested.
    """
    asked = [tuple(sorted(one - left_out)) for one in earlier]
    alone = dict.fromkeys(one[0] for one in asked if len(one) == 1)
    yield from alone
    for several in dict.fromkeys(asked):
        if not alone.keys() & {*several}:
            yield f"({' or '.join(several)})"
    for member in sorted(left_out):
        if not any(member in conflict and alone.keys() & {*conflict} for conflict in conflicts):
            yield member.replace("' in ", "' not in ")


class Kinds:
    """The condition of a release: the extras and groups that require it, by place and fork.

    :param forks: all forks.
    """

    def __init__(self, forks: Iterable[Fork]) -> None:
        self._forks = tuple(dict.fromkeys(forks))
        self._asked: dict[Place, dict[Fork, frozenset[str]]] = {}

    def add(self, place: Place, fork: Fork, asked: frozenset[str]) -> None:
        """Add the extras and groups that require the release.

        :param asked: markers of which one must hold; none: it always applies.
        """
        forks = self._asked.setdefault(place, {})
        forks[fork] = either(forks.get(fork), asked)

    def by_place(self) -> Mapping[Place, frozenset[str]]:
        """Return for each place the markers of which one must hold; none: it always counts."""
        return {place: self._joined(forks) for place, forks in self._asked.items()}

    def _joined(self, asked: Mapping[Fork, frozenset[str]]) -> frozenset[str]:
        terms: set[str] = set()
        kinds = {kind for kinds_of_fork in asked.values() for kind in kinds_of_fork or ("",)}
        for kind in kinds:
            holding = [
                fork for fork, kinds_of_fork in asked.items() if kind in (kinds_of_fork or ("",))
            ]
            possible = [fork for fork in self._forks if kind not in fork.left_out]
            if len(holding) == len(possible):
                if not kind:
                    return frozenset()
                terms.add(kind)
            else:
                terms |= {_both(kind, fork.condition) for fork in holding}
        return frozenset(terms)


def _both(kind: str, condition: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(filter(None, (kind, *condition))))
