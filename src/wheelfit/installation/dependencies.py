"""The dependencies in an environment, from the metadata of installed distributions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.markers import VariantContext
from wheelfit.installation.installed import by_name
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.requirements import Requirement
    from wheelfit.installation.installed import Installed


class InstalledNeed(Struct, frozen=True):
    """A requirement of an installed package that counts in its environment."""

    needing: Installed
    requirement: Requirement
    found: Installed | None
    """The package that meets it, by name; None: nothing of that name is installed."""
    extra: NormalizedName | None = None
    """The extra of the needing package that it belongs to; None: it counts always."""
    is_asked: bool = True
    """Whether it applies always, or a requirement of another package has that extra. The extras the
    user requested are not recorded.
    """

    @property
    def is_met(self) -> bool:
        """Whether the installed version meets the requirement."""
        if self.found is None:
            return False
        return self.requirement.specifier.contains(self.found.version, prereleases=True)


class InstalledNeeds(Struct, frozen=True):
    """The packages of an environment and their requirements."""

    packages: Mapping[NormalizedName, Installed]
    """Those that are imported, by name."""
    needs: tuple[InstalledNeed, ...]
    """In the order of the packages and of their metadata."""

    @classmethod
    def of(cls, installed: Iterable[Installed], environment: Mapping[str, str]) -> InstalledNeeds:
        """Read the requirements of each package."""
        packages = by_name(installed)
        needs = [
            need for entry in packages.values() for need in _needs(entry, packages, environment)
        ]
        asked: set[tuple[NormalizedName, NormalizedName]] = set()
        while True:  # an extra may require others
            more = {
                (need.requirement.name, extra)
                for need in needs
                if need.extra is None or (need.needing.name, need.extra) in asked
                for extra in need.requirement.extras
            }
            if more <= asked:
                break
            asked |= more
        return cls(
            packages,
            tuple(
                need
                if need.extra is None
                else InstalledNeed(
                    need.needing,
                    need.requirement,
                    need.found,
                    need.extra,
                    (need.needing.name, need.extra) in asked,
                )
                for need in needs
            ),
        )

    def of_package(self, name: NormalizedName) -> tuple[InstalledNeed, ...]:
        """Return the requirements of a package, with those of required extras."""
        return tuple(need for need in self.needs if need.needing.name == name and need.is_asked)

    def needing(self, name: NormalizedName) -> tuple[InstalledNeed, ...]:
        """Return the needs of others that a package meets, also those of extras not required."""
        return tuple(
            need for need in self.needs if need.requirement.name == name != need.needing.name
        )


def _needs(
    entry: Installed,
    packages: Mapping[NormalizedName, Installed],
    environment: Mapping[str, str],
) -> Iterator[InstalledNeed]:
    # Metadata that cannot be read names no needs; `list` and `check-env` report it.
    with suppress(WheelfitError):
        metadata = entry.metadata()
        # The label was chosen for this machine, so it supports all that the label declares.
        context = (
            VariantContext.PLAIN
            if entry.label is None
            else VariantContext(entry.label, entry.properties)
        )
        for requirement in metadata.requires:
            installed = packages.get(requirement.name)
            with suppress(WheelfitError):
                if requirement.applies(environment, "", context):
                    yield InstalledNeed(entry, requirement, installed)
                    continue
                for extra in sorted(metadata.provides_extra):
                    if installed is not None and requirement.applies(environment, extra, context):
                        yield InstalledNeed(entry, requirement, installed, extra)
