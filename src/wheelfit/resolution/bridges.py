"""The choice among the members of a bridged family, where it differs from that among variants.

A family is a project whose builds are published as several distributions, its members. They have
different releases, and two of them can be requested by name, although they install the same files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.labels import NULL
from wheelfit.core.metadata import read_document
from wheelfit.core.property_support import namespaces_used
from wheelfit.errors import NoSolution
from wheelfit_runtime.errors import NoFit
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.properties import PropertySet
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.request import InstalledBuild
    from wheelfit.resolution.resolution import Pin, Resolution


def accelerated_releases(
    candidates: Candidates,
    name: NormalizedName,
    installed: Mapping[NormalizedName, InstalledBuild],
    *,
    prereleases: bool,
) -> tuple[Version, ...]:
    """Return the releases of a family with a member for the machine's hardware, best first.

    The newest release may have only the member for any machine, which does not use the accelerator.
    A release of an installed member comes first.

    :return: empty if no release is preferred.
    """
    family, listing = candidates.bridge(name), candidates.listing(name)
    if family is None or listing is None or not candidates.policy.preferences.variants:
        return ()
    releases = sorted(
        fitting_releases(candidates, name, prereleases=prereleases),
        key=lambda release: listing.ranks.get(release, 0),
    )
    for member in family.distributions:
        build = installed.get(member)
        if build is not None and member != name and build.version in releases:
            releases.remove(build.version)
            releases.insert(0, build.version)
            break
    return tuple(releases)


def fitting_releases(
    candidates: Candidates, name: NormalizedName, *, prereleases: bool
) -> Sequence[Version]:
    """Return the releases of a family with a member for the machine's hardware."""
    family, listing = candidates.bridge(name), candidates.listing(name)
    if family is None or listing is None:
        return ()
    support = _MemberSupport(candidates, family)
    preferences = candidates.applicable_preferences(name, support.document)
    pinned = candidates.policy.preferences.labels.get(name)

    def fits(filename: WheelFilename) -> bool:
        member = family.member_of_wheel(filename)
        if member is None or not member.when:
            return False
        if pinned is not None:
            return member.label == pinned
        properties = family.properties(member)
        return (
            (not candidates.is_for_one_machine or support.supports(member))
            and candidates.objection(properties) is None
            and preferences.objection(properties, support.support) is None
        )

    return [
        version
        for version, release in listing.releases.items()
        if (prereleases or not version.is_prerelease)
        and any(
            wheel.rejection is None
            and not wheel.is_yanked
            and fits(wheel.filename)
            and not candidates.is_rejected(wheel.filename)
            for wheel in release.wheels
        )
    ]


class _MemberSupport:
    """The support of a machine for the members of a family."""

    def __init__(self, candidates: Candidates, family: BridgeFamily) -> None:
        self.family = family
        # Only required properties, and targets of several machines, need the variants in the
        # document.
        needs_members = candidates.policy.preferences.require or not candidates.is_for_one_machine
        members = family.members if needs_members else ()
        self.document = read_document(
            json.dumps(family.document(members)).encode(), where=f"bridge {family.name}"
        )
        namespaces = namespaces_used(map(family.properties, family.members))
        self.support = candidates.support_of(self.document, namespaces)
        self._results: dict[PropertySet, bool] = {}

    def supports(self, member: FamilyMember) -> bool:
        """Return whether the machine meets the conditions of a member."""
        if member.when not in self._results:
            properties = self.family.properties(member)
            self._results[member.when] = self.support.refusal(properties) is None
        return self._results[member.when]


def members_for(candidates: Candidates) -> Callable[[BridgeFamily, FamilyMember], bool]:
    """Return a predicate that states whether the machine can use a member of a family."""
    platforms = candidates.target.platforms
    labels = candidates.policy.preferences.labels
    supports: dict[NormalizedName, _MemberSupport] = {}

    def is_usable(family: BridgeFamily, member: FamilyMember) -> bool:
        if not member.covers_platforms(platforms):
            return False
        if not member.when or member.label in labels.values():
            return True
        if family.name not in supports:
            supports[family.name] = _MemberSupport(candidates, family)
        return supports[family.name].supports(member)

    return is_usable


def missing_accelerated_build(
    resolution: Resolution, candidates: Candidates, missed: Mapping[NormalizedName, str]
) -> NoFit | None:
    """Return the error if a build for the accelerator is on an unreachable index; else None.

    :param missed: the projects whose index cannot be reached, so that builds of the registry were
        taken, with the reason.
    """
    is_usable = members_for(candidates)
    for pin in resolution.pins:
        family = candidates.bridge(pin.name) if pin.name in missed else None
        if family is None or pin.label not in (None, NULL):
            continue
        for member in family.members:
            if member.when and member.covers_project(pin.name) and is_usable(family, member):
                return NoFit(
                    f"no build of {pin.name} is available for the accelerator of this machine",
                    code="no-accelerator",
                    note=f"{missed[pin.name]}\nthat index has builds for it, as {member.label}",
                    hint="try again later; --bridge NAME@URL names a mirror of the index; "
                    "--no-bridges takes the build of the registry, which uses the processor only",
                )
    return None


def bridge_options(candidates: Candidates, name: NormalizedName) -> str:
    """Return the options for families that have builds of a project, with what each takes.

    :return: empty if a family is in use already, or there is none.
    """
    if candidates.bridge(name) is not None:
        return ""
    options = []
    for family in candidates.policy.families(name):
        if family.by_default:
            continue
        if family.is_of_indexes:
            builds = f"{name} from {family.base}"
        else:
            builds = f"one of {listed([other for other in family.distributions if other != name])}"
        options.append(f"--bridge {family.name} takes {builds}")
    return "; ".join(options)


# --- members that own the same files ---------------------------------------------------------


def _distribution_of(pin: Pin, family: BridgeFamily) -> NormalizedName:
    """Return the distribution whose files are installed for a pin of a family."""
    if pin.file.is_selector and pin.label is not None:
        member = family.member_of(pin.label, pin.version)
        if member is not None:
            return member.distribution
    return pin.name


@dataclass(frozen=True, slots=True)
class _Clash:
    """Members of one family that would be installed together."""

    family: BridgeFamily
    members: tuple[NormalizedName, ...]


def _superseded(
    resolution: Resolution,
    builds_in_environment: Mapping[NormalizedName, InstalledBuild],
    candidates: Candidates,
) -> dict[NormalizedName, str]:
    """Return the installed members to remove because another one is chosen, with the reason.

    They were installed for the family's project, not by their own names.
    """
    names_after = {pin.name for pin in resolution.pins} | {kept.name for kept in resolution.kept}
    superseded = {}
    for pin in resolution.pins:
        family, installed = candidates.bridge(pin.name), builds_in_environment.get(pin.name)
        if family is None or not family.exclusive or installed is None or installed.label is None:
            continue
        member = family.member_of(installed.label, installed.version)
        if member is None or member.distribution in names_after:
            continue
        if member.distribution in builds_in_environment:
            superseded[member.distribution] = f"it was installed for {installed}, which is replaced"
    return superseded


def with_one_member(
    resolution: Resolution,
    resolve_again: Callable[[Candidates], Resolution],
    candidates: Candidates,
    builds_in_environment: Mapping[NormalizedName, InstalledBuild],
) -> Resolution:
    """Resolve with only one member of each family whose members own the same files.

    A member that a package needs by its name, or that is installed independently of the family, is
    also the choice for the family's name.

    :raises NoSolution: two members are needed by their names, or the needed member is not
        compatible.
    """
    if not candidates.is_for_one_machine:
        return resolution
    while True:
        final = candidates.within(resolution.context)
        clash = next(_clashes(resolution, final, builds_in_environment), None)
        if clash is None:
            return replace(
                resolution, superseded=_superseded(resolution, builds_in_environment, final)
            )
        needed = _needed_by_name(clash, resolution, builds_in_environment)
        wheels_of_others = (
            _wheels_of_others(clash, needed[0], candidates) if len(needed) == 1 else {}
        )
        if not wheels_of_others:
            raise _clash_error(clash)
        candidates = candidates.within(candidates.context.with_excluded(wheels_of_others))
        try:
            resolution = resolve_again(candidates)
        except NoFit as error:
            raise _clash_error(clash, error.message) from None


def _clashes(
    resolution: Resolution,
    candidates: Candidates,
    builds_in_environment: Mapping[NormalizedName, InstalledBuild],
) -> Iterator[_Clash]:
    installed_after = {*builds_in_environment, *(pin.name for pin in resolution.pins)}
    installed_after -= _superseded(resolution, builds_in_environment, candidates).keys()
    for pin in resolution.pins:
        family = candidates.bridge(pin.name)
        if family is None or not family.exclusive or family.is_of_indexes:
            continue
        members = [
            name for name in family.distributions if name in installed_after and name != pin.name
        ]
        if _distribution_of(pin, family) == pin.name:
            members.append(pin.name)
        if len(members) > 1:
            yield _Clash(family, tuple(members))


def _needed_by_name(
    clash: _Clash,
    resolution: Resolution,
    builds_in_environment: Mapping[NormalizedName, InstalledBuild],
) -> list[NormalizedName]:
    """Return the members that are installed, or needed by others than the family."""
    needed = {edge.needed for edge in resolution.edges if edge.needing != clash.family.name}
    needed |= {pin.name for pin in resolution.pins if pin.requested}
    needed |= builds_in_environment.keys()
    return [name for name in clash.members if name in needed and name != clash.family.name]


def _wheels_of_others(
    clash: _Clash, member: NormalizedName, candidates: Candidates
) -> dict[str, str]:
    """Return the wheels of other members of a family, with the reason to exclude them."""
    listing = candidates.listing(clash.family.name)
    if listing is None:  # pragma: no cover - it was resolved
        return {}
    others = {}
    for version, release in listing.releases.items():
        labels = {
            other.label
            for other in clash.family.members_of(version)
            if other.distribution == member
        }
        for wheel in release.wheels:
            if wheel.filename.label not in labels and not candidates.is_rejected(wheel.filename):
                others[wheel.filename.text] = f"{member} is needed too, and owns the same files"
    return others


def _clash_error(clash: _Clash, reason: str = "") -> NoSolution:
    notes = [f"all of them are builds of {clash.family.name}"]
    if reason:
        notes.append(f"the same one for all packages is not possible: {reason}")
    return NoSolution(
        f"{listed(clash.members)} own the same files, and only one of them can be installed",
        note="\n".join(notes),
        hint="exclude the ones that are not needed with --override or --exclude",
    )
