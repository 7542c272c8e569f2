"""The newest releases that fit together and have builds for the most kinds of accelerators.

The release of a project with builds for the most kinds may conflict with those of other projects.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import combinations, islice
from operator import and_
from typing import TYPE_CHECKING

from msgspec.structs import replace
from packaging.specifiers import SpecifierSet

from wheelfit.core.requirements import Requirement
from wheelfit.resolution.accelerator_kinds import kinds_by_release, with_most_kinds
from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest
from wheelfit.resolution.resolver import resolve
from wheelfit.resolution.version_set import VersionSet
from wheelfit_runtime.errors import HashMismatch, NoFit
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Resolution

_MAX_ATTEMPTS = 12
"""The number of sets of kinds for which a resolution is attempted."""


def resolve_jointly(
    request: ResolutionRequest, candidates: Candidates, *, threads: int
) -> Resolution:
    """Resolve a request with builds for the most kinds of accelerators.

    A kind counts if every project that has builds for it has one in the chosen release: otherwise a
    machine of this kind would lack its accelerator. So ROCm does not count if torch has a build for
    it, but torchvision has one only in another release. Preferred versions stay, and all other
    projects have the newest possible version.

    :param candidates: the candidates for machines of every kind; for a single machine the plain
        resolution is returned.
    :raises WheelfitError: as ``wheelfit.resolution.resolver.resolve``.
    """
    resolution = resolve(request, candidates, threads=threads)
    if candidates.is_for_one_machine:
        return resolution
    projects = list(_projects(resolution, request, candidates))
    versions = _versions(resolution, projects)
    for kinds in islice(_sets_of_kinds(projects), _MAX_ATTEMPTS):
        # The resolution has builds for these kinds, and no later set has more kinds.
        if all(project.releases_for(kinds)[0] == versions[project.name] for project in projects):
            break
        constraints = tuple(project.constraint_for(kinds) for project in projects)
        constrained_request = replace(request, constraints=(*request.constraints, *constraints))
        try:
            joint_versions = _versions(
                resolve(constrained_request, candidates, threads=threads), projects
            )
        except (NoFit, HashMismatch):
            continue
        if joint_versions == versions:
            break
        # Newer releases are reported for favoured versions, but not for preferred ones.
        preferred = {
            name: version
            for name, version in request.preferred.items()
            if name not in joint_versions
        }
        favouring_request = replace(request, favoured=joint_versions, preferred=preferred)
        joint_resolution = resolve(favouring_request, candidates, threads=threads)
        if _versions(joint_resolution, projects) == joint_versions:
            resolution = joint_resolution
            break
    notes = _notes_on_missing_builds(projects, _versions(resolution, projects))
    return replace(resolution, missing_builds=tuple(notes))


@dataclass(frozen=True, slots=True)
class _Project:
    name: NormalizedName
    releases: Mapping[Version, frozenset[str]]
    """Releases with builds for accelerators, newest first, each with its kinds."""
    others: Sequence[Version]
    """Allowed releases without such builds."""
    kinds: frozenset[str]
    """The kinds that any release has builds for, even one that the request does not allow."""

    def releases_for(self, kinds: frozenset[str]) -> Sequence[Version]:
        """Return the releases with builds for some kinds; kinds that no release has are ignored."""
        needed_kinds = kinds & self.kinds
        return [
            version
            for version, kinds_of_release in self.releases.items()
            if needed_kinds <= kinds_of_release
        ]

    def constraint_for(self, kinds: frozenset[str]) -> RequestedRequirement:
        """Return a constraint that excludes the releases without builds for some kinds."""
        allowed = self.releases_for(kinds)
        excluded = (*self.others, *(release for release in self.releases if release not in allowed))
        specifier = SpecifierSet(",".join(f"!={version}" for version in excluded))
        return RequestedRequirement(Requirement(self.name, specifier=specifier))


def _projects(
    resolution: Resolution, request: ResolutionRequest, candidates: Candidates
) -> Iterator[_Project]:
    """Yield the projects with a bridge in a resolution, requested ones first."""
    requirements = [
        requested.requirement
        for requested in (*request.requirements, *request.constraints, *request.overrides)
    ]
    environment = candidates.target.environment
    for pin in sorted(resolution.pins, key=lambda pin: not pin.requested):
        listing = None if pin.is_direct else candidates.listing(pin.name)
        if listing is None or listing.bridge is None:
            continue
        kinds = kinds_by_release(candidates, pin.name, prereleases=request.prereleases)
        version_sets = (
            VersionSet.of(requirement.specifier)
            for requirement in requirements
            if requirement.name == pin.name and requirement.applies(environment)
        )
        allowed = reduce(and_, version_sets, VersionSet.full()).members(listing.releases)
        if pin.release == request.preferred.get(pin.name):
            allowed = [pin.release]
        releases = {version: kinds[version] for version in allowed if version in kinds}
        if pin.release in releases:
            others = [version for version in allowed if version not in releases]
            yield _Project(pin.name, releases, others, frozenset().union(*kinds.values()))


def _sets_of_kinds(projects: Sequence[_Project]) -> Iterator[frozenset[str]]:
    """Yield the sets of kinds that each project has a release for.

    Larger sets come first, and of one size those with the newest releases.
    """
    all_kinds = sorted(frozenset().union(*(project.kinds for project in projects)))
    for size in range(len(all_kinds), 0, -1):
        sets = map(frozenset, combinations(all_kinds, size))
        possible = [
            kinds for kinds in sets if all(project.releases_for(kinds) for project in projects)
        ]
        yield from sorted(possible, key=lambda kinds: _releases_behind(projects, kinds))


def _releases_behind(projects: Sequence[_Project], kinds: frozenset[str]) -> list[int]:
    """Return, for each project, the number of releases newer than the newest for some kinds."""
    return [[*project.releases].index(project.releases_for(kinds)[0]) for project in projects]


def _versions(
    resolution: Resolution, projects: Sequence[_Project]
) -> Mapping[NormalizedName, Version | None]:
    pins = {pin.name: pin.release for pin in resolution.pins}
    return {project.name: pins.get(project.name) for project in projects}


def _notes_on_missing_builds(
    projects: Sequence[_Project], versions: Mapping[NormalizedName, Version | None]
) -> Iterator[str]:
    """Yield a note if other releases of some projects have builds for more kinds."""
    missing = []
    for project in projects:
        version, best = versions[project.name], with_most_kinds(project.releases)
        if version is None or best is None:
            continue
        kinds = [
            kind
            for kind in sorted(project.releases[best] - project.releases.get(version, frozenset()))
            if all(other.releases_for(frozenset([kind])) for other in projects)
        ]
        if kinds:
            missing.append(f"{project.name} {version} for {listed(kinds)} ({best} has one)")
    if missing:
        yield (
            f"no build of {listed(missing)}: no compatible releases have builds for all of these "
            "machines; lock for one of them with --for MACHINE"
        )
