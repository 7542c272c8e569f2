"""Installed distributions that belong together, and those unneeded after their replacement.

A build belongs with others: the libraries of its vendor, and packages built for it. If one of them
is replaced alone, the others hold it back, or are left behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName

from wheelfit.installation.dependencies import InstalledNeeds
from wheelfit.installation.installed import by_name
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.installation.dependencies import Need
    from wheelfit.installation.installed import Installed
    from wheelfit.resolution.resolution import Resolution

    Names = frozenset[NormalizedName]

_RECORD_REQUESTS = ("wheelfit", "pip", "uv")
"""Installers that write REQUESTED; distributions from other installers may have been requested."""


@dataclass(frozen=True, slots=True)
class Companions:
    """Installed distributions that are replaced together.

    Needs are those of the installed builds. The requested extras are not recorded, so the needs of
    every extra keep their distributions, and never make them companions.
    """

    installed: Mapping[NormalizedName, Installed]
    needs: Mapping[NormalizedName, Names]
    needs_of_extras: Mapping[NormalizedName, Names]
    """The requirements of each one with all its extras."""
    builds: Names
    """The variants that need each other."""
    followers: Names
    """Distributions that only those need, other variants included, not requested by the user."""

    @classmethod
    def of(
        cls,
        start: Iterable[NormalizedName],
        installed: Iterable[Installed],
        environment: Mapping[str, str],
    ) -> Companions:
        """Return the companions of some variants.

        :param start: the variants to replace.
        """
        there = by_name(installed)
        start = {name for name in start if name in there and there[name].label is not None}
        if not start:
            return cls(there, {}, {}, frozenset(), frozenset())
        read = InstalledNeeds.of(there.values(), environment).needs
        needs = _by_needing(there, (one for one in read if one.extra is None))
        needs_of_extras = _by_needing(there, read)
        builds = _connected(start, needs, {name for name in there if there[name].label})
        followers = _followers(builds, there, needs, needs_of_extras)
        return cls(there, needs, needs_of_extras, builds, followers)

    def unneeded(self, resolution: Resolution) -> dict[NormalizedName, str]:
        """Return the followers that nothing needs any more, each with the reason as a clause."""
        coming = {pin.name for pin in resolution.pins}
        result = coming | {kept.name for kept in resolution.kept}
        gone = set(self.followers - result)
        staying = self.needs_of_extras.keys() - coming
        while needed := gone & _union(self.needs_of_extras, staying - gone):
            gone -= needed
        return {name: f"only {listed(self._needing(name))} needed it" for name in sorted(gone)}

    def _needing(self, name: NormalizedName) -> list[str]:
        return [str(self.installed[one]) for one, needs in self.needs.items() if name in needs]


def _by_needing(
    there: Iterable[NormalizedName], needs: Iterable[Need]
) -> dict[NormalizedName, Names]:
    names: dict[NormalizedName, set[NormalizedName]] = {name: set() for name in there}
    for need in needs:
        names[need.needing.name].add(need.requirement.name)
    return {name: frozenset(needed) for name, needed in names.items()}


def _connected(
    start: Iterable[NormalizedName],
    needs: Mapping[NormalizedName, Names],
    variants: set[NormalizedName],
) -> Names:
    """Return the variants that are connected with some by needs, in either direction."""
    connected, pending = set[NormalizedName](), set(start)
    while pending:
        connected |= pending
        near = _union(needs, pending) | {name for name in needs if needs[name] & pending}
        pending = (near & variants) - connected
    return frozenset(connected)


def _followers(
    builds: Names,
    there: Mapping[NormalizedName, Installed],
    needs: Mapping[NormalizedName, Names],
    needs_of_extras: Mapping[NormalizedName, Names],
) -> Names:
    followers = {name for name in _reached(builds, needs) & there.keys() if _may_go(there[name])}
    while True:
        others = needs_of_extras.keys() - followers - builds
        # Nor in a circle, in which each is there for the other only.
        staying = followers & _union(needs_of_extras, others) | followers - _reached(
            builds - followers, needs
        )
        if not staying:
            return frozenset(followers)
        followers -= staying


def _may_go(entry: Installed) -> bool:
    is_fixed = entry.requested or entry.editable or entry.outside or entry.legacy
    return not is_fixed and entry.installer in _RECORD_REQUESTS


def _reached(
    start: Iterable[NormalizedName], needs: Mapping[NormalizedName, Names]
) -> set[NormalizedName]:
    """Return the direct and indirect needs of some distributions."""
    reached, pending = set[NormalizedName](), set(start)
    while pending:
        pending = _union(needs, pending) - reached
        reached |= pending
    return reached


def _union(
    needs: Mapping[NormalizedName, Names], names: Iterable[NormalizedName]
) -> set[NormalizedName]:
    return set[NormalizedName]().union(*(needs.get(name, ()) for name in names))
