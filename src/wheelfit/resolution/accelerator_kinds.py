"""The kinds of accelerators that releases of a family have builds for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from wheelfit.core.accelerators import accelerators_of, platform_in_words
from wheelfit.core.labels import NULL
from wheelfit.resolution.bridges import fitting_releases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.listing import Release


def kinds_by_release(
    candidates: Candidates, name: NormalizedName, *, prereleases: bool
) -> Mapping[Version, frozenset[str]]:
    """Return the releases that count for machines of every kind, each with its kinds.

    Where a release has something for any machine, only such releases count.

    :param candidates: the candidates, with the user's preferences.
    :param name: the project that a family stands for.
    :param prereleases: whether they count.
    :return: newest first; nothing for what no family has builds for accelerators of.
    :raises NetworkError: a source cannot be read.
    """
    family, listing = candidates.bridge(name), candidates.listing(name)
    if family is None or listing is None or not candidates.policy.preferences.variants:
        return {}
    if not any(accelerators_of(member.when) for member in family.members):
        return {}
    fitting = fitting_releases(candidates, name, prereleases=prereleases)
    everybody = [
        version
        for version, release in listing.releases.items()
        if (prereleases or not version.is_prerelease)
        and any(
            wheel.rejection is None and wheel.filename.label in (None, NULL)
            for wheel in release.wheels
        )
    ]
    best = [version for version in everybody if version in fitting] or everybody or fitting
    return {version: kinds_of(listing.releases[version], family, candidates) for version in best}


def kinds_of(release: Release, family: BridgeFamily, candidates: Candidates) -> frozenset[str]:
    """Return the kinds of accelerators that a release has builds for, such as ``CUDA 12``.

    Nothing that is built for one major version of CUDA runs on a driver of an older one. A build
    that needs what cannot be had, as what has only source, is for no machine.
    """
    labelled = {
        wheel.filename.label: wheel.filename for wheel in release.wheels if wheel.rejection is None
    }
    members = map(family.member_of_wheel, labelled.values())
    return frozenset(
        platform_in_words(namespace, member.when)
        for member in members
        if member is not None and all(_can_be_had(text, candidates) for text in member.requires)
        for namespace in accelerators_of(member.when)
    )


def _can_be_had(requirement: str, candidates: Candidates) -> bool:
    """Return whether a project that is needed has a release at all."""
    listing = candidates.listing(canonicalize_name(Requirement(requirement).name))
    return listing is not None and bool(listing.possible())


def with_most_kinds(kinds: Mapping[Version, frozenset[str]]) -> Version | None:
    """Return the newest of the releases with the most kinds; None if there is no release."""
    return max(kinds, key=lambda version: len(kinds[version]), default=None)
