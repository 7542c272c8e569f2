"""Installed distributions that belong together, and those unneeded after their replacement.

A build belongs with others: the libraries of its vendor, and packages built for it. If one of them
is replaced alone, the others hold it back, or are left behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.utils import NormalizedName

from wheelfit.installation.dependencies import InstalledNeeds
from wheelfit.installation.installed import by_name
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.installation.dependencies import InstalledNeed
    from wheelfit.installation.installed import Installed
    from wheelfit.resolution.resolution import Resolution

    Names = frozenset[NormalizedName]

_RECORD_REQUESTS = ("wheelfit", "pip", "uv")
"""Installers that write REQUESTED; distributions from other installers may have been requested."""


class RelatedDistributions(Struct, frozen=True):
    """Installed distributions that are replaced together.

    Needs are those of the installed builds. Environments do not record requested extras: so the
    needs of all extras count when distributions are kept, and none when related ones are looked up.
    """

    installed: Mapping[NormalizedName, Installed]
    needs: Mapping[NormalizedName, Names]
    needs_of_extras: Mapping[NormalizedName, Names]
    """The requirements of each distribution with all its extras."""
    builds: Names
    """The variants that need each other."""
    dependencies: Names
    """Distributions, other variants too, that only these builds need, and no user requested."""

    @classmethod
    def of(
        cls,
        start: Iterable[NormalizedName],
        installed: Iterable[Installed],
        environment: Mapping[str, str],
    ) -> RelatedDistributions:
        """Return the distributions related to some variants.

        :param start: the variants to replace.
        """
        there = by_name(installed)
        start = {name for name in start if name in there and there[name].label is not None}
        if not start:
            return cls(there, {}, {}, frozenset(), frozenset())
        all_needs = InstalledNeeds.of(there.values(), environment).needs
        needs = _by_needing(there, (need for need in all_needs if need.extra is None))
        needs_of_extras = _by_needing(there, all_needs)
        builds = _connected_variants(start, needs, {name for name in there if there[name].label})
        dependencies = _only_needed_by(builds, there, needs, needs_of_extras)
        return cls(there, needs, needs_of_extras, builds, dependencies)

    def unneeded(self, resolution: Resolution) -> dict[NormalizedName, str]:
        """Return the dependencies that a resolution does not need, with the reason as a clause."""
        coming = {pin.name for pin in resolution.pins}
        result = coming | {kept.name for kept in resolution.kept}
        gone = set(self.dependencies - result)
        staying = self.needs_of_extras.keys() - coming
        while needed := gone & _direct_needs(self.needs_of_extras, staying - gone):
            gone -= needed
        return {name: f"only {listed(self._needing(name))} needed it" for name in sorted(gone)}

    def _needing(self, name: NormalizedName) -> list[str]:
        return [
            str(self.installed[needing]) for needing, needs in self.needs.items() if name in needs
        ]


def _by_needing(
    there: Iterable[NormalizedName], needs: Iterable[InstalledNeed]
) -> dict[NormalizedName, Names]:
    names: dict[NormalizedName, set[NormalizedName]] = {name: set() for name in there}
    for need in needs:
        names[need.dependent.name].add(need.requirement.name)
    return {name: frozenset(needed) for name, needed in names.items()}


def _connected_variants(
    start: Iterable[NormalizedName],
    needs: Mapping[NormalizedName, Names],
    variants: set[NormalizedName],
) -> Names:
    """Return the variants that are connected with some by needs, in either direction."""
    connected, pending = set[NormalizedName](), set(start)
    while pending:
        connected |= pending
        adjacent = _direct_needs(needs, pending) | {name for name in needs if needs[name] & pending}
        pending = (adjacent & variants) - connected
    return frozenset(connected)


def _only_needed_by(
    builds: Names,
    there: Mapping[NormalizedName, Installed],
    needs: Mapping[NormalizedName, Names],
    needs_of_extras: Mapping[NormalizedName, Names],
) -> Names:
    dependencies = {
        name for name in _all_needs(builds, needs) & there.keys() if _is_removable(there[name])
    }
    while True:
        other_names = needs_of_extras.keys() - dependencies - builds
        # Removed distributions may need each other in a circle, so needs of builds decide as well.
        needed_elsewhere = dependencies & _direct_needs(
            needs_of_extras, other_names
        ) | dependencies - _all_needs(builds - dependencies, needs)
        if not needed_elsewhere:
            return frozenset(dependencies)
        dependencies -= needed_elsewhere


def _is_removable(entry: Installed) -> bool:
    is_fixed = entry.requested or entry.editable or entry.outside or entry.legacy
    return not is_fixed and entry.installer in _RECORD_REQUESTS


def _all_needs(
    start: Iterable[NormalizedName], needs: Mapping[NormalizedName, Names]
) -> set[NormalizedName]:
    """Return the direct and indirect needs of some distributions."""
    found, pending = set[NormalizedName](), set(start)
    while pending:
        pending = _direct_needs(needs, pending) - found
        found |= pending
    return found


def _direct_needs(
    needs: Mapping[NormalizedName, Names], names: Iterable[NormalizedName]
) -> set[NormalizedName]:
    return set[NormalizedName]().union(*(needs.get(name, ()) for name in names))
