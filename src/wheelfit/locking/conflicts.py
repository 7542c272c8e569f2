"""Conflicting extras and groups: resolved separately, distinguished by markers.

At most one member of a conflict may be requested. So each environment is resolved once for each
choice of one member of every conflict, a *fork*, which leaves out the other members. If no member
of a conflict is requested, the fork of its first member applies.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from wheelfit.errors import UsageError
from wheelfit.locking.reachable_releases import combine_markers
from wheelfit.locking.request import Fork

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.locking.environments import MarkerValues

Conflict = tuple[str, ...]
"""The members, as markers of a lock: ``'cpu' in extras``."""
MAX_FORKS = 64
"""The maximum number of forks, which are the resolutions of one environment."""


def forks_of(conflicts: Sequence[Conflict]) -> tuple[Fork, ...]:
    """Return every fork; a single one that leaves nothing out if there are no conflicts.

    :raises UsageError: there are too many.
    """
    count = 1
    for conflict in conflicts:
        count *= len(conflict)
        if count > MAX_FORKS:
            raise UsageError(
                f"the conflicts have more than {MAX_FORKS} combinations",
                hint="join conflicts that have members in common, or lock fewer extras and groups "
                "with --extra and --group",
            )
    unchosen: dict[frozenset[str], None] = {}
    for choice in product(*conflicts):
        unchosen_members = [
            {*conflict} - {member} for conflict, member in zip(conflicts, choice, strict=True)
        ]
        unchosen[frozenset().union(*unchosen_members)] = None
    # A fork that leaves out a superset of another one is never needed.
    minimal = [members for members in unchosen if not any(other < members for other in unchosen)]
    return tuple(
        Fork(left_out, tuple(_condition(left_out, minimal[:number], conflicts)))
        for number, left_out in enumerate(minimal)
    )


def _condition(
    left_out: frozenset[str], earlier: Sequence[frozenset[str]], conflicts: Sequence[Conflict]
) -> Iterator[str]:
    """Yield the markers that all hold where a fork applies.

    That is the first fork, in the order of the lock, that leaves out no requested member.

    :param left_out: the members the fork leaves out; none of them may be requested.
    :param earlier: the members each earlier fork leaves out; one of each must be requested.
    """
    requested = [tuple(sorted(members - left_out)) for members in earlier]
    single = dict.fromkeys(members[0] for members in requested if len(members) == 1)
    yield from single
    for members_of_fork in dict.fromkeys(requested):
        if not single.keys() & {*members_of_fork}:
            yield f"({' or '.join(members_of_fork)})"
    for member in sorted(left_out):
        # If another member of its conflict is certainly requested, this one cannot be.
        if not any(member in conflict and single.keys() & {*conflict} for conflict in conflicts):
            yield member.replace("' in ", "' not in ")


class RequestMarkers:
    """The markers of the extras and groups that require a release, by environment and fork."""

    def __init__(self, forks: Iterable[Fork]) -> None:
        self._forks = tuple(dict.fromkeys(forks))
        self._markers: dict[MarkerValues, dict[Fork, frozenset[str]]] = {}

    def add(self, environment: MarkerValues, fork: Fork, markers: frozenset[str]) -> None:
        """Add the extras and groups that require the release.

        :param markers: markers of which one must hold; none: it always applies.
        """
        by_fork = self._markers.setdefault(environment, {})
        by_fork[fork] = combine_markers(by_fork.get(fork), markers)

    def by_environment(self) -> Mapping[MarkerValues, frozenset[str]]:
        """Return by environment the markers of which one must hold; none: it always applies."""
        return {
            environment: self._combine_forks(by_fork)
            for environment, by_fork in self._markers.items()
        }

    def _combine_forks(self, by_fork: Mapping[Fork, frozenset[str]]) -> frozenset[str]:
        """Return markers; one of them holds if the fork that applies needs the release.

        A marker that only some forks have is combined with their conditions. Forks that leave out
        its extra or group do not count, as it cannot hold there.
        """
        forks_by_marker: dict[str, list[Fork]] = {}
        for fork, markers in by_fork.items():
            for marker in markers or {_ALWAYS}:
                forks_by_marker.setdefault(marker, []).append(fork)
        combined: set[str] = set()
        for marker, forks in forks_by_marker.items():
            possible_count = sum(marker not in fork.left_out for fork in self._forks)
            if len(forks) < possible_count:
                combined |= {_conjunction(marker, fork.condition) for fork in forks}
            elif marker == _ALWAYS:
                return frozenset()
            else:
                combined.add(marker)
        return frozenset(combined)


_ALWAYS = ""
"""The marker that always holds."""


def _conjunction(marker: str, condition: Sequence[str]) -> str:
    return " and ".join(dict.fromkeys(filter(None, (marker, *condition))))
