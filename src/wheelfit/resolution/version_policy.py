"""The admission of versions: pre-releases and yanked releases count only when requested.

PEP 440 admits a pre-release if a specifier names one, or if nothing else matches. PEP 592 admits a
yanked release if it is pinned. Both depend on the requirements, and the solver learns from an empty
set of versions; so during one run versions are only added, and callers learn of additions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.problem import Need, Releases
    from wheelfit.resolution.version_set import VersionSet


class VersionPolicy:
    """The versions that are admitted by the needs so far.

    :param releases: the available releases.
    :param prereleases: whether pre-releases always count.
    """

    def __init__(self, releases: Releases, *, prereleases: bool) -> None:
        self._releases = releases
        self._prereleases = prereleases
        self._needs: dict[NormalizedName, dict[Need, None]] = {}
        self._listed: dict[NormalizedName, tuple[Version, ...]] = {}
        self._restricted: dict[NormalizedName, tuple[Version, ...]] = {}
        self._admitted: dict[NormalizedName, frozenset[Version]] = {}
        self._choices: dict[tuple[NormalizedName, VersionSet], tuple[Version, ...]] = {}

    def add_need(self, need: Need) -> bool:
        """Add a need.

        :returns: whether that admits more versions of a project whose versions were returned
            before.
        """
        name = need.package.name
        needs = self._needs.setdefault(name, {})
        if need in needs:
            return False
        needs[need] = None
        if name not in self._admitted:
            return False
        added = self._admitted_by(name, need) - self._admitted[name]
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
        admitted = self._admitted_versions(name) | {self._releases.kept(name)}
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
                kept = self._releases.kept(name)
                members = sorted(
                    members, key=lambda member: -1 if member == kept else ranks.get(member, 0)
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
        kept = self._releases.kept(name)
        named_prereleases = versions.welcomed(version for version in members if version in admitted)
        first: list[Version] = []
        last: list[Version] = []
        for version in members:
            if version not in restricted or version == kept:
                first.append(version)
            elif version in admitted:
                is_named = version not in yanked and version in named_prereleases
                (first if is_named else last).append(version)
        return first + last

    def _admitted_versions(self, name: NormalizedName) -> frozenset[Version]:
        """Return the pre-releases and yanked versions that some need admits."""
        admitted = self._admitted.get(name)
        if admitted is None:
            needs = self._needs.get(name, ())
            admitted = frozenset(
                version for need in needs for version in self._admitted_by(name, need)
            )
            self._admitted[name] = admitted
        return admitted

    def _admitted_by(self, name: NormalizedName, need: Need) -> frozenset[Version]:
        """Return the pre-releases and yanked versions that a need admits."""
        restricted = need.versions.members(self._restricted[name])
        if not restricted:
            return frozenset()
        yanked = self._releases.yanked(name)
        has_others = len(need.versions.members(self.listed(name))) > len(restricted)
        named_prereleases = need.versions.welcomed(restricted)
        return frozenset(
            version
            for version in restricted
            if (need.is_pin or version not in yanked)
            and (
                self._prereleases
                or not version.is_prerelease
                or not has_others
                or version in named_prereleases
            )
        )
