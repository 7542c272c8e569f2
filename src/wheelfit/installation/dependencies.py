"""The dependencies in an environment, from the metadata of installed distributions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from wheelfit.core.markers import VariantContext
from wheelfit.installation.installed import Installed, by_name
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.requirements import Requirement


class InstalledRequirement(Struct, frozen=True):
    """A requirement of an installed package whose marker holds in its environment."""

    dependent: Installed
    requirement: Requirement
    installed: Installed | None
    """The installed package of that name, in any version; None: there is none."""
    extra: NormalizedName | None = None
    """The extra of the dependent that has the requirement; None: it applies without extras."""
    is_required: bool = True
    """Whether it applies without extras, or another package requires that extra. The extras that
    the user requested are not recorded.
    """

    @property
    def is_met(self) -> bool:
        """Whether the installed version meets the requirement."""
        if self.installed is None:
            return False
        return self.requirement.specifier.contains(self.installed.version, prereleases=True)


class InstalledRequirements(Struct, frozen=True):
    """The packages of an environment and their requirements."""

    packages: Mapping[NormalizedName, Installed]
    """The importable packages by name."""
    needs: tuple[InstalledRequirement, ...]
    """The requirements, in the order of the packages and of their metadata."""

    @classmethod
    def of(
        cls, installed: Iterable[Installed], environment: Mapping[str, str]
    ) -> InstalledRequirements:
        """Read the requirements of each package."""
        packages = by_name(installed)
        needs = [
            need for entry in packages.values() for need in _needs(entry, packages, environment)
        ]
        extras: set[tuple[NormalizedName, NormalizedName]] = set()

        def is_required(need: InstalledRequirement) -> bool:
            return need.extra is None or (need.dependent.name, need.extra) in extras

        while True:  # an extra may require others
            required = {
                (need.requirement.name, extra)
                for need in filter(is_required, needs)
                for extra in need.requirement.extras
            }
            if required <= extras:
                break
            extras |= required
        return cls(packages, tuple(replace(need, is_required=is_required(need)) for need in needs))

    def of_package(self, name: NormalizedName) -> tuple[InstalledRequirement, ...]:
        """Return the requirements of a package, with those of required extras."""
        return tuple(
            need for need in self.needs if need.dependent.name == name and need.is_required
        )

    def on(self, name: NormalizedName) -> tuple[InstalledRequirement, ...]:
        """Return the requirements of others on a package, with those of all extras."""
        return tuple(
            need
            for need in self.needs
            if need.requirement.name == name and need.dependent.name != name
        )


def _needs(
    entry: Installed,
    packages: Mapping[NormalizedName, Installed],
    environment: Mapping[str, str],
) -> Iterator[InstalledRequirement]:
    # Unreadable metadata has no requirements here; `list` and `doctor` report it.
    with suppress(WheelfitError):
        metadata = entry.metadata()
        # The label was chosen for this machine, which therefore supports all its properties.
        context = (
            VariantContext.PLAIN
            if entry.label is None
            else VariantContext(entry.label, entry.properties)
        )
        for requirement in metadata.requires:
            installed = packages.get(requirement.name)
            with suppress(WheelfitError):
                if requirement.applies(environment, "", context):
                    yield InstalledRequirement(entry, requirement, installed)
                    continue
                # A requirement of an extra is yielded only if its package is installed: whether the
                # user requested the extra is unknown.
                for extra in sorted(metadata.provides_extra):
                    if installed is not None and requirement.applies(environment, extra, context):
                        yield InstalledRequirement(entry, requirement, installed, extra)
