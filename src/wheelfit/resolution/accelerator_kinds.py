"""The kinds of accelerators that releases of a family have builds for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.accelerators import accelerators_of, platform_in_words
from wheelfit.core.labels import NULL
from wheelfit.resolution.bridges import fitting_releases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.listing import Release


def kinds_by_release(
    candidates: Candidates, name: NormalizedName, *, prereleases: bool
) -> Mapping[Version, frozenset[str]]:
    """Return the releases of a project with the kinds of accelerators they have builds for.

    If any release has a wheel for all machines, only such releases are returned.

    :return: newest first; empty if no family has builds of it for accelerators.
    """
    family, listing = candidates.bridge(name), candidates.listing(name)
    if family is None or listing is None or not candidates.policy.preferences.variants:
        return {}
    if not any(accelerators_of(member.when) for member in family.members):
        return {}
    fitting = fitting_releases(candidates, name, prereleases=prereleases)
    for_all_machines = [
        version
        for version, release in listing.releases.items()
        if (prereleases or not version.is_prerelease)
        and any(
            wheel.rejection is None and wheel.filename.label in (None, NULL)
            for wheel in release.wheels
        )
    ]
    preferred = (
        [version for version in for_all_machines if version in fitting]
        or for_all_machines
        or fitting
    )
    return {
        version: kinds_of(listing.releases[version], family, candidates) for version in preferred
    }


def kinds_of(release: Release, family: BridgeFamily, candidates: Candidates) -> frozenset[str]:
    """Return the kinds of accelerators that a release has builds for, such as ``CUDA 12``.

    A build for one major version of CUDA does not run on an older driver. Builds for other
    platforms are left out, and those whose requirements are not available, for example only as
    source.
    """
    platforms = candidates.target.platforms
    labelled = {
        wheel.filename.label: wheel.filename for wheel in release.wheels if wheel.rejection is None
    }
    members = map(family.member_of_wheel, labelled.values())
    return frozenset(
        platform_in_words(namespace, member.when)
        for member in members
        if member is not None
        and member.covers_platforms(platforms)
        and all(_is_available(text, candidates) for text in member.requires)
        for namespace in accelerators_of(member.when)
    )


def _is_available(requirement: str, candidates: Candidates) -> bool:
    listing = candidates.listing(canonicalize_name(Requirement(requirement).name))
    return listing is not None and bool(listing.releases.possible_versions)


def with_most_kinds(kinds: Mapping[Version, frozenset[str]]) -> Version | None:
    """Return the newest of the releases with the most kinds; None if there is no release."""
    return max(kinds, key=lambda version: len(kinds[version]), default=None)
