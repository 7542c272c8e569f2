"""Installed distributions that must be replaced together, and those that become unneeded.

A build is related to others: the libraries of its vendor, and packages that are built for it. If
only one of them is replaced, the others prevent an upgrade, or stay although nothing needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.utils import NormalizedName

from wheelfit.installation.dependencies import InstalledRequirement, InstalledRequirements
from wheelfit.installation.installed import Installed, by_name
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.resolution.resolution import Resolution

    Names = frozenset[NormalizedName]

_INSTALLERS_WITH_REQUESTED = ("wheelfit", "pip", "uv")
"""Installers that write REQUESTED; distributions from other installers may have been requested."""


class RelatedDistributions(Struct, frozen=True):
    """Installed distributions that are replaced together.

    Environments do not record which extras were requested. So `needs`, by which related builds are
    found, has no requirements of extras, and `needs_of_extras`, by which dependencies are kept, has
    those of all extras.
    """

    installed: Mapping[NormalizedName, Installed]
    needs: Mapping[NormalizedName, Names]
    """The projects that each distribution requires, without extras."""
    needs_of_extras: Mapping[NormalizedName, Names]
    """The projects that each distribution requires, with all its extras."""
    builds: Names
    """The variants that need each other."""
    dependencies: Names
    """Distributions, variants included, that only these builds need and no user requested."""

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
        installed_by_name = by_name(installed)
        variants = {name for name, entry in installed_by_name.items() if entry.label is not None}
        start = variants.intersection(start)
        if not start:
            return cls(installed_by_name, {}, {}, frozenset(), frozenset())
        all_needs = InstalledRequirements.of(installed_by_name.values(), environment).needs
        needs = _needs_by_dependent(
            installed_by_name, (need for need in all_needs if need.extra is None)
        )
        needs_of_extras = _needs_by_dependent(installed_by_name, all_needs)
        builds = _connected_variants(start, needs, variants)
        dependencies = _only_needed_by(builds, installed_by_name, needs, needs_of_extras)
        return cls(installed_by_name, needs, needs_of_extras, builds, dependencies)

    def unneeded(self, resolution: Resolution) -> dict[NormalizedName, str]:
        """Return the dependencies that a resolution does not need, with the reason as a clause."""
        pinned = {pin.name for pin in resolution.pins}
        kept = {build.name for build in resolution.kept}
        unneeded = set(self.dependencies - pinned - kept)
        staying = self.needs_of_extras.keys() - pinned
        # What a staying distribution needs stays too, and so do its needs in the next round.
        while needed := unneeded & _direct_needs(self.needs_of_extras, staying - unneeded):
            unneeded -= needed
        return {
            name: f"only {listed(self._dependents_of(name))} needed it" for name in sorted(unneeded)
        }

    def _dependents_of(self, name: NormalizedName) -> list[str]:
        return [
            str(self.installed[dependent])
            for dependent, needs in self.needs.items()
            if name in needs
        ]


def _needs_by_dependent(
    names: Iterable[NormalizedName], needs: Iterable[InstalledRequirement]
) -> dict[NormalizedName, Names]:
    by_dependent: dict[NormalizedName, set[NormalizedName]] = {name: set() for name in names}
    for need in needs:
        by_dependent[need.dependent.name].add(need.requirement.name)
    return {name: frozenset(needed) for name, needed in by_dependent.items()}


def _connected_variants(
    start: Iterable[NormalizedName],
    needs: Mapping[NormalizedName, Names],
    variants: set[NormalizedName],
) -> Names:
    """Return some variants and all others that their requirements connect, in either direction."""
    connected, pending = set[NormalizedName](), set(start)
    while pending:
        connected |= pending
        adjacent = _direct_needs(needs, pending) | {name for name in needs if needs[name] & pending}
        pending = (adjacent & variants) - connected
    return frozenset(connected)


def _only_needed_by(
    builds: Names,
    installed: Mapping[NormalizedName, Installed],
    needs: Mapping[NormalizedName, Names],
    needs_of_extras: Mapping[NormalizedName, Names],
) -> Names:
    """Return the removable distributions that only the given builds need."""
    dependencies = {
        name
        for name in _all_needs(builds, needs) & installed.keys()
        if _is_removable(installed[name])
    }
    while True:
        others = needs_of_extras.keys() - dependencies - builds
        needed_by_others = dependencies & _direct_needs(needs_of_extras, others)
        # Distributions that need only each other, in a cycle, are not needed by a build any more.
        unneeded_by_builds = dependencies - _all_needs(builds - dependencies, needs)
        if not needed_by_others and not unneeded_by_builds:
            return frozenset(dependencies)
        dependencies -= needed_by_others | unneeded_by_builds


def _is_removable(entry: Installed) -> bool:
    is_fixed = entry.requested or entry.editable or entry.outside or entry.legacy
    return not is_fixed and entry.installer in _INSTALLERS_WITH_REQUESTED


def _all_needs(
    start: Iterable[NormalizedName], needs: Mapping[NormalizedName, Names]
) -> set[NormalizedName]:
    """Return the direct and indirect needs of some distributions."""
    reached, pending = set[NormalizedName](), set(start)
    while pending:
        pending = _direct_needs(needs, pending) - reached
        reached |= pending
    return reached


def _direct_needs(
    needs: Mapping[NormalizedName, Names], names: Iterable[NormalizedName]
) -> set[NormalizedName]:
    return set[NormalizedName]().union(*(needs.get(name, ()) for name in names))
