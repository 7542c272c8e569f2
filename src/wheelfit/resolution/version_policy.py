"""The versions that count: pre-releases and yanked releases only when requested.

PEP 440 lets a pre-release count when a specifier names one, or when nothing else fits a specifier.
PEP 592 lets a yanked release count when it is pinned. Both depend on the requirement, and a solver
that learns from "there is none" must not get another answer later. So admission only ever grows
during one run of the solver, and callers are notified of it.
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
    """The versions that count, by what was requested.

    :param releases: the available releases.
    :param prereleases: whether pre-releases always count.
    """

    def __init__(self, releases: Releases, *, prereleases: bool) -> None:
        self._releases = releases
        self._prereleases = prereleases
        self._asked: dict[NormalizedName, dict[Need, None]] = {}
        self._listed: dict[NormalizedName, tuple[Version, ...]] = {}
        self._doubtful: dict[NormalizedName, tuple[Version, ...]] = {}
        self._admitted: dict[NormalizedName, frozenset[Version]] = {}
        self._choices: dict[tuple[NormalizedName, VersionSet], tuple[Version, ...]] = {}

    def see(self, need: Need) -> bool:
        """Take note of a need.

        :returns: whether an answer given before would now be another.
        """
        name = need.package.name
        asked = self._asked.setdefault(name, {})
        if need in asked:
            return False
        asked[need] = None
        if name not in self._admitted:
            return False
        more = self._welcome(name, need) - self._admitted[name]
        if not more:
            return False
        self._admitted[name] |= more
        self._choices = {key: value for key, value in self._choices.items() if key[0] != name}
        return True

    def is_listed(self, name: NormalizedName) -> bool:
        """Return whether the versions of a project have been looked up."""
        return name in self._listed

    def listed(self, name: NormalizedName) -> tuple[Version, ...]:
        """Return every version, whether it counts or not, newest first."""
        listed = self._listed.get(name)
        if listed is None:
            listed = self._listed[name] = tuple(self._releases.versions(name))
            yanked = self._releases.yanked(name)
            self._doubtful[name] = tuple(
                version
                for version in listed
                if version in yanked or (version.is_prerelease and not self._prereleases)
            )
        return listed

    def counted(self, name: NormalizedName) -> tuple[Version, ...]:
        """Return the versions that count at present, newest first."""
        listed = self.listed(name)
        doubtful = frozenset(self._doubtful[name])
        if not doubtful:
            return listed
        counting = self._admitted_of(name) | {self._releases.kept(name)}
        return tuple(one for one in listed if one not in doubtful or one in counting)

    def choices(self, name: NormalizedName, versions: VersionSet) -> tuple[Version, ...]:
        """Return the members of a set that count, in the order to try them.

        Newest first; pre-releases that this very set did not name come last.
        """
        key = (name, versions)
        choices = self._choices.get(key)
        if choices is None:
            members = versions.members(self.listed(name))
            doubtful = self._doubtful[name]
            if doubtful:
                members = self._sorted_out(name, versions, members)
            if ranks := self._releases.ranks(name):
                kept = self._releases.kept(name)
                members = sorted(
                    members, key=lambda member: -1 if member == kept else ranks.get(member, 0)
                )
            if postponed := self._releases.postponed(name):
                members = sorted(members, key=postponed.__contains__)
            choices = self._choices[key] = tuple(members)
        return choices

    def _sorted_out(
        self, name: NormalizedName, versions: VersionSet, members: Sequence[Version]
    ) -> list[Version]:
        admitted = self._admitted_of(name)
        doubtful = frozenset(self._doubtful[name])
        yanked = self._releases.yanked(name)
        kept = self._releases.kept(name)
        welcomed = versions.welcomed(version for version in members if version in admitted)
        first: list[Version] = []
        last: list[Version] = []
        for version in members:
            if version not in doubtful or version == kept:
                first.append(version)
            elif version in admitted:
                willing = version not in yanked and version in welcomed
                (first if willing else last).append(version)
        return first + last

    def _admitted_of(self, name: NormalizedName) -> frozenset[Version]:
        """Return the doubtful versions that some need admits."""
        admitted = self._admitted.get(name)
        if admitted is None:
            needs = self._asked.get(name, ())
            admitted = frozenset(version for need in needs for version in self._welcome(name, need))
            self._admitted[name] = admitted
        return admitted

    def _welcome(self, name: NormalizedName, need: Need) -> frozenset[Version]:
        """Return the doubtful versions that a need admits."""
        doubtful = need.versions.members(self._doubtful[name])
        if not doubtful:
            return frozenset()
        yanked = self._releases.yanked(name)
        has_others = len(need.versions.members(self.listed(name))) > len(doubtful)
        welcomed = need.versions.welcomed(doubtful)
        return frozenset(
            version
            for version in doubtful
            if (need.is_pin or version not in yanked)
            and (
                self._prereleases
                or not version.is_prerelease
                or not has_others
                or version in welcomed
            )
        )
