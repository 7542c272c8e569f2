"""The requirements of installed distributions that a change of the environment breaks."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.markers import VariantContext
from wheelfit.installation.installed import Installed, by_name, requirement_pattern
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from re import Pattern

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.requirements import Requirement
    from wheelfit.installation.plan import Plan


class BrokenRequirement(Struct, frozen=True):
    """A requirement that is not met after a change."""

    dependent: Installed
    """The distribution with the requirement; it stays unchanged."""
    requirement: Requirement
    new_version: Version | None
    """The version after the change; None if the project is removed."""

    def to_mapping(self) -> dict[str, object]:
        """Return the requirement as plain data, for ``--json``."""
        return {
            "name": self.dependent.name,
            "version": str(self.dependent.version),
            "requirement": str(self.requirement),
            "installed": None if self.new_version is None else str(self.new_version),
        }

    def __str__(self) -> str:
        needed = f"{self.dependent} needs {self.requirement}"
        if self.new_version is None:
            return f"{needed}, but {self.requirement.name} will be removed"
        return f"{needed}, but {self.requirement.name} {self.new_version} will be installed"


def find_broken_requirements(
    plan: Plan, installed: Iterable[Installed], environment: Mapping[str, str]
) -> tuple[BrokenRequirement, ...]:
    """Return the requirements that a change leaves unmet, in the order of the names.

    As in pip, installed distributions that a request does not name take no part in the resolution,
    so the effect on them is reported. Requirements of extras do not count, because environments do
    not record which extras were requested.
    """
    removed = set(plan.remove)
    replaced = {pin.name: pin.version for pin in plan.install}
    changed = {entry.name for entry in removed} | replaced.keys()
    staying = [entry for entry in installed if entry not in removed]
    if not (changed and staying):
        return ()
    pattern = requirement_pattern(sorted(changed))
    versions_after = {name: entry.version for name, entry in by_name(staying).items()} | replaced
    broken = [
        BrokenRequirement(entry, requirement, versions_after.get(requirement.name))
        for entry in staying
        if entry.name not in replaced  # the new version is imported instead
        for requirement in _requirements(entry, pattern, environment)
        if requirement.name in changed and not _is_met(requirement, versions_after)
    ]
    return tuple(sorted(broken, key=lambda unmet: (unmet.dependent.name, str(unmet.requirement))))


def _requirements(
    entry: Installed, pattern: Pattern[bytes], environment: Mapping[str, str]
) -> Iterator[Requirement]:
    # Invalid metadata was reported when it was read; it has no usable requirements.
    with suppress(WheelfitError):
        if not entry.may_need(pattern):
            return
        for requirement in entry.metadata().requires:
            marker = requirement.marker
            if entry.label is not None and marker is not None and marker.uses_variants:
                continue  # it depends on the machine (F-103), and a guess would be a false alarm
            if requirement.applies(environment, "", VariantContext.PLAIN):
                yield requirement


def _is_met(requirement: Requirement, versions: Mapping[NormalizedName, Version]) -> bool:
    version = versions.get(requirement.name)
    return version is not None and requirement.specifier.contains(version, prereleases=True)
