"""Dependency graphs in a few words: what exists, without files or metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.resolution.problem import Build, Dependency, Package, build_index
from wheelfit.resolution.version_set import VersionSet, is_pin


def dependencies(*texts: str) -> list[Dependency]:
    """Return the needs that some requirements stand for, extras included.

    :param texts: requirements as people write them; markers are not looked at.
    """
    result = []
    for text in texts:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        versions = VersionSet.of(requirement.specifier)
        pin = is_pin(requirement.specifier)
        extras = [canonicalize_name(extra) for extra in sorted(requirement.extras)]
        result += [
            Dependency(Package(name, extra), versions, str(requirement), pin)
            for extra in [None, *extras]
        ]
    return result


class Graph:
    """Implement ``Releases`` from a mapping.

    >>> graph = Graph({"app 1": ["lib>=2"], "lib 2": [], "lib[fast] 2": ["speed"], "speed 1": []})

    :param releases: ``name version`` or ``name[extra] version`` to what it needs.
    :param yanked: ``name version`` of releases only a pin may ask for.
    :param unusable: ``name version`` of releases without a usable wheel.
    :param kept: installed versions by name.
    :param builds: ``name version`` of releases with several builds, best first; each with
        its label, what it needs, and the versions of other projects it was made for.
    :param unsound: ``name version`` and label of builds without a usable wheel.
    :param there: versions of projects that are there although nothing needs them.
    """

    def __init__(
        self,
        releases: Mapping[str, Sequence[str]],
        *,
        yanked: Sequence[str] = (),
        unusable: Sequence[str] = (),
        kept: Mapping[str, str] | None = None,
        builds: Mapping[str, Sequence[tuple[str, Sequence[str], Sequence[str]]]] | None = None,
        unsound: Sequence[tuple[str, str]] = (),
        there: Mapping[str, str] | None = None,
    ) -> None:
        self._dependencies: dict[tuple[Package, Version], list[Dependency]] = {}
        self._versions: dict[NormalizedName, list[Version]] = {}
        for text, requirements in releases.items():
            package, version = _release(text)
            self._dependencies[package, version] = dependencies(*requirements)
            if package.extra is None:
                self._versions.setdefault(package.name, []).append(version)
        for versions in self._versions.values():
            versions.sort(reverse=True)
        self._yanked = {_release(text) for text in yanked}
        self._unusable = {_release(text) for text in unusable}
        self._kept = {
            canonicalize_name(name): Version(version) for name, version in (kept or {}).items()
        }
        self._builds = {_release(text): found for text, found in (builds or {}).items()}
        self._unsound = {(_release(text), label) for text, label in unsound}
        self._there = {
            canonicalize_name(name): Version(version) for name, version in (there or {}).items()
        }
        self.asked: list[tuple[NormalizedName, Version]] = []
        """Releases whose usability was asked for, in order."""

    def versions(self, name: NormalizedName) -> Sequence[Version]:
        """Return the versions of a project, newest first."""
        return self._versions.get(name, [])

    def no_version(self, name: NormalizedName, versions: VersionSet) -> str:
        """Say that nothing is there."""
        if name not in self._versions:
            return f"nobody knows {name}"
        if versions.members(self._versions[name]):
            return f"{name}{versions} has no usable wheel"
        return f"there is no {name}{versions}"

    def yanked(self, name: NormalizedName) -> frozenset[Version]:
        """Return the yanked versions of a project."""
        return frozenset(version for package, version in self._yanked if package.name == name)

    def postponed(self, name: NormalizedName) -> frozenset[Version]:
        """Return that no version is tried last."""
        del name
        return frozenset()

    def ranks(self, name: NormalizedName) -> Mapping[Version, int]:
        """Return nothing: newer versions are tried first."""
        del name
        return {}

    def preferred_version(self, name: NormalizedName) -> Version | None:
        """Return the installed version."""
        return self._kept.get(name)

    def is_usable(self, name: NormalizedName, version: Version) -> bool:
        """Return whether the release was not marked as unusable."""
        if version != self._kept.get(name):  # what is there is usable without a look
            self.asked.append((name, version))
        return (Package(name), version) not in self._unusable

    def has_several_builds(self, name: NormalizedName, version: Version) -> bool:
        """Return whether the release has builds."""
        return (Package(name), version) in self._builds

    def build(self, name: NormalizedName, version: Version, place: int) -> Build | None:
        """Return a build by its place."""
        builds = self._builds[Package(name), version]
        if place >= len(builds):
            return None
        label, _, limits = builds[place]
        return Build(label, tuple(dependencies(*limits)))

    def is_build_usable(self, name: NormalizedName, version: Version, place: int) -> bool:
        """Return whether the build was not marked as unsound."""
        label, *_ = self._builds[Package(name), version][place]
        return ((Package(name), version), label) not in self._unsound

    def version_in_environment(self, name: NormalizedName) -> Version | None:
        """Return the version that is there anyway."""
        return self._there.get(name, self._kept.get(name))

    def no_build(self, name: NormalizedName, version: Version, *, others: bool) -> str:
        """Say that no build is left."""
        return f"{name} {version} has no {'other ' if others else ''}build"

    def dependencies(self, package: Package, version: Version) -> Sequence[Dependency]:
        """Return what a release or build needs, or what an extra of it adds."""
        if package.release is None:
            return self._dependencies.get((package, version), [])
        if package.extra is not None:
            return self._dependencies.get((Package(*package[:2]), package.release), [])
        _, found, _ = self._builds[Package(package.name), package.release][build_index(version)]
        return dependencies(*found)

    def prefetch(self, dependencies: Sequence[Dependency]) -> None:
        """Do nothing: everything is here already."""


def _release(text: str) -> tuple[Package, Version]:
    requirement, _, version = text.partition(" ")
    parsed = Requirement(requirement)
    extra = next((canonicalize_name(extra) for extra in parsed.extras), None)
    return Package(canonicalize_name(parsed.name), extra), Version(version)
