"""The admission of versions: pre-releases and yanked releases only when requested.

PEP 440 admits a pre-release if a specifier names one, or if nothing else matches. PEP 592 admits a
yanked release if it is pinned. Both depend on the requirements so far, and the solver relies on
what it concluded from a set of versions. So during one run versions are only added, and
`VersionPolicy.add_dependency` returns whether any were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.problem import Dependency, Releases
    from wheelfit.resolution.version_set import VersionSet


class VersionPolicy:
    """The versions that are admitted by the dependencies so far.

    :param prereleases: whether pre-releases are always admitted.
    """

    def __init__(self, releases: Releases, *, prereleases: bool) -> None:
        self._releases = releases
        self._prereleases = prereleases
        self._dependencies: dict[NormalizedName, dict[Dependency, None]] = {}
        self._listed: dict[NormalizedName, tuple[Version, ...]] = {}
        self._restricted: dict[NormalizedName, tuple[Version, ...]] = {}
        self._admitted: dict[NormalizedName, frozenset[Version]] = {}
        self._choices: dict[tuple[NormalizedName, VersionSet], tuple[Version, ...]] = {}

    def add_dependency(self, dependency: Dependency) -> bool:
        """Add a dependency.

        :return: whether that admits more versions of a project whose versions were returned
            before.
        """
        name = dependency.package.name
        dependencies = self._dependencies.setdefault(name, {})
        if dependency in dependencies:
            return False
        dependencies[dependency] = None
        if name not in self._admitted:
            return False
        added = self._admitted_by(name, dependency) - self._admitted[name]
        if not added:
            return False
        self._admitted[name] |= added
        self._choices = {key: value for key, value in self._choices.items() if key[0] != name}
        return True

    def is_listed(self, name: NormalizedName) -> bool:
        """Return whether the versions of a project have been looked up."""
        return name in self._listed

    def listed(self, name: NormalizedName) -> tuple[Version, ...]:
        """Return every version, admitted or not, newest first."""
        listed = self._listed.get(name)
        if listed is None:
            listed = self._listed[name] = tuple(self._releases.versions(name))
            yanked = self._releases.yanked(name)
            self._restricted[name] = tuple(
                version
                for version in listed
                if version in yanked or (version.is_prerelease and not self._prereleases)
            )
        return listed

    def admitted_versions(self, name: NormalizedName) -> tuple[Version, ...]:
        """Return the versions that are admitted at present, newest first."""
        listed = self.listed(name)
        restricted = frozenset(self._restricted[name])
        if not restricted:
            return listed
        admitted = self._admitted_versions(name) | {self._releases.preferred_version(name)}
        return tuple(
            version for version in listed if version not in restricted or version in admitted
        )

    def choices(self, name: NormalizedName, versions: VersionSet) -> tuple[Version, ...]:
        """Return the admitted members of a set, in the order to try them.

        Newest first; pre-releases that this set does not name come last.
        """
        key = (name, versions)
        choices = self._choices.get(key)
        if choices is None:
            members = versions.members(self.listed(name))
            restricted = self._restricted[name]
            if restricted:
                members = self._admitted_members(name, versions, members)
            if ranks := self._releases.ranks(name):
                preferred = self._releases.preferred_version(name)
                members = sorted(
                    members, key=lambda member: -1 if member == preferred else ranks.get(member, 0)
                )
            if postponed := self._releases.postponed(name):
                members = sorted(members, key=postponed.__contains__)
            choices = self._choices[key] = tuple(members)
        return choices

    def _admitted_members(
        self, name: NormalizedName, versions: VersionSet, members: Sequence[Version]
    ) -> list[Version]:
        admitted = self._admitted_versions(name)
        restricted = frozenset(self._restricted[name])
        yanked = self._releases.yanked(name)
        preferred = self._releases.preferred_version(name)
        named_prereleases = versions.without_unrequested_prereleases(
            version for version in members if version in admitted
        )
        first: list[Version] = []
        last: list[Version] = []
        for version in members:
            if version not in restricted or version == preferred:
                first.append(version)
            elif version in admitted:
                is_named = version not in yanked and version in named_prereleases
                (first if is_named else last).append(version)
        return first + last

    def _admitted_versions(self, name: NormalizedName) -> frozenset[Version]:
        """Return the pre-releases and yanked versions that some dependency admits."""
        admitted = self._admitted.get(name)
        if admitted is None:
            dependencies = self._dependencies.get(name, ())
            admitted = frozenset(
                version
                for dependency in dependencies
                for version in self._admitted_by(name, dependency)
            )
            self._admitted[name] = admitted
        return admitted

    def _admitted_by(self, name: NormalizedName, dependency: Dependency) -> frozenset[Version]:
        """Return the pre-releases and yanked versions that a dependency admits."""
        restricted = dependency.versions.members(self._restricted[name])
        if not restricted:
            return frozenset()
        yanked = self._releases.yanked(name)
        has_others = len(dependency.versions.members(self.listed(name))) > len(restricted)
        named_prereleases = dependency.versions.without_unrequested_prereleases(restricted)
        return frozenset(
            version
            for version in restricted
            if (dependency.is_pin or version not in yanked)
            and (
                self._prereleases
                or not version.is_prerelease
                or not has_others
                or version in named_prereleases
            )
        )
