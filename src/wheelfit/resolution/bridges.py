"""The choice among members of a bridged family, where it differs from that among variants.

A family is a project whose builds were published under several names. So its builds do not keep
pace with each other, and two of them can be requested by name at the same time, though they own the
same files.
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


def favoured(
    candidates: Candidates,
    name: NormalizedName,
    installed: Mapping[NormalizedName, InstalledBuild],
    *,
    prereleases: bool,
) -> tuple[Version, ...]:
    """Return the releases of a family with a member for the machine's hardware, best first.

    Members keep pace badly: a newer release that only the member for any machine has would
    otherwise cost an accelerator. A member that is installed need not be replaced by a newer one.

    :param candidates: the candidates, with the machine and the user's preferences.
    :param name: the project that the family stands for.
    :param installed: the installed builds, which may stay.
    :param prereleases: whether they count.
    :return: empty where no release is preferred.
    :raises NetworkError: a source cannot be read.
    """
    family, listing = candidates.bridge(name), candidates.listing(name)
    if family is None or listing is None or not candidates.policy.preferences.variants:
        return ()
    fitting = sorted(
        fitting_releases(candidates, name, prereleases=prereleases),
        key=lambda release: listing.ranks.get(release, 0),
    )
    for member in family.distributions:
        present = installed.get(member)
        if present is not None and member != name and present.version in fitting:
            fitting.sort(key=present.version.__ne__)
            break
    return tuple(fitting)


def fitting_releases(
    candidates: Candidates, name: NormalizedName, *, prereleases: bool
) -> Sequence[Version]:
    """Return the releases of a family with a member for the machine's hardware.

    :param candidates: the candidates, with the machine and the user's preferences.
    :param name: the project that the family stands for.
    :param prereleases: whether they count.
    :raises NetworkError: a source cannot be read.
    """
    family, listing = candidates.bridge(name), candidates.listing(name)
    if family is None or listing is None:
        return ()
    fitting = _Fitting(candidates, family)
    wishes = candidates.applying(name, fitting.document)
    pinned = candidates.policy.preferences.labels.get(name)
    is_for_all = not candidates.is_for_one_machine  # whose builds have machines of their own

    def fits(filename: WheelFilename) -> bool:
        member = family.member_of_wheel(filename)
        if member is None or not member.when:
            return False
        if pinned is not None:
            return member.label == pinned
        properties = family.properties(member)
        return (
            (is_for_all or fitting.supports(member))
            and candidates.objection(properties) is None
            and wishes.objection(properties, fitting.support) is None
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


class _Fitting:
    """The members of a family for the hardware of a machine.

    :param candidates: the candidates, with the machine and the user's preferences.
    :param family: the family.
    """

    def __init__(self, candidates: Candidates, family: BridgeFamily) -> None:
        self.family = family
        # The properties of members matter to preferences, and to candidates without a machine.
        is_asked = candidates.is_for_one_machine and not candidates.policy.preferences.require
        offered = () if is_asked else family.members
        self.document = read_document(
            json.dumps(family.document(offered)).encode(), where=f"bridge {family.name}"
        )
        namespaces = namespaces_used(map(family.properties, family.members))
        self.support = candidates.support_of(self.document, namespaces)
        self._known: dict[PropertySet, bool] = {}

    def supports(self, member: FamilyMember) -> bool:
        """Return whether the machine meets the conditions of a member."""
        if member.when not in self._known:
            properties = self.family.properties(member)
            self._known[member.when] = self.support.refusal(properties) is None
        return self._known[member.when]


def members_for(candidates: Candidates) -> Callable[[BridgeFamily, FamilyMember], bool]:
    """Return a function that returns whether the machine could get a member of a family.

    :param candidates: the candidates, with the machine and the user's preferences.
    """
    platforms = [tag for tag in candidates.target.tags if tag.platform != "any"]
    labels = candidates.policy.preferences.labels
    fitting: dict[NormalizedName, _Fitting] = {}

    def is_obtainable(family: BridgeFamily, member: FamilyMember) -> bool:
        if not member.covers(platforms):
            return False
        if not member.when or member.label in labels.values():
            return True
        if family.name not in fitting:
            fitting[family.name] = _Fitting(candidates, family)
        return fitting[family.name].supports(member)

    return is_obtainable


def idle_accelerator(
    resolution: Resolution, candidates: Candidates, missed: Mapping[NormalizedName, str]
) -> NoFit | None:
    """Return the error if a substitute would leave an accelerator idle; else None.

    :param resolution: the resolution to check.
    :param candidates: the candidates, with the machine.
    :param missed: the projects of which the registry's builds are a substitute for those of an
        index that cannot be reached, each with the reason.
    """
    is_obtainable = members_for(candidates)
    for pin in resolution.pins:
        family = candidates.bridge(pin.name) if pin.name in missed else None
        if family is None or pin.label not in (None, NULL):
            continue
        lost = [
            member
            for member in family.members
            if member.when and member.is_for(pin.name) and is_obtainable(family, member)
        ]
        if lost:
            return NoFit(
                f"no build of {pin.name} is available for the accelerator of this machine",
                code="no-accelerator",
                note=f"{missed[pin.name]}\nthat index has builds for it, as {lost[0].label}",
                hint="try again later; --bridge NAME@URL names a mirror of the index; --no-bridges "
                "takes what the registry has, which runs on the processor alone",
            )
    return None


def not_agreed(candidates: Candidates, name: NormalizedName) -> str:
    """Return the option that takes builds of a project from a family not yet in use.

    :param candidates: the candidates.
    :param name: the name of the project.
    :return: empty if there is no such family.
    """
    if candidates.bridge(name) is not None:
        return ""
    others = [family for family in candidates.policy.families(name) if not family.by_default]
    return "; ".join(f"--bridge {one.name} takes {_what(one, name)}" for one in others)


def _what(family: BridgeFamily, name: NormalizedName) -> str:
    """Return the source of a project's builds by a family, in words."""
    if family.is_of_indexes:
        return f"{name} from {family.base}"
    others = [distribution for distribution in family.distributions if distribution != name]
    return f"one of {listed(others)}"


# --- members that own the same files ---------------------------------------------------------


def _stands_for(pin: Pin, family: BridgeFamily) -> NormalizedName:
    """Return the distribution whose files a pin of a family brings.

    :param pin: a pin of the project that the family stands for.
    :param family: the family.
    """
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
    """All of them."""


def _superseded(
    resolution: Resolution, around: Mapping[NormalizedName, InstalledBuild], candidates: Candidates
) -> dict[NormalizedName, str]:
    """Return the members that leave because a family's name gets another one, with the reason.

    Only members that a selector required which is replaced itself.

    :param resolution: the resolution.
    :param around: the installed builds.
    :param candidates: the candidates it was resolved from.
    """
    staying = {pin.name for pin in resolution.pins} | {kept.name for kept in resolution.kept}
    reasons = {}
    for pin in resolution.pins:
        family, old = candidates.bridge(pin.name), around.get(pin.name)
        if family is None or not family.exclusive or old is None or old.label is None:
            continue
        former = family.member_of(old.label, old.version)
        if former is None or former.distribution in staying:
            continue
        if former.distribution in around:
            reasons[former.distribution] = f"{old} was the build of {pin.name} that it brought"
    return reasons


def alone(
    resolution: Resolution,
    again: Callable[[Candidates], Resolution],
    candidates: Candidates,
    around: Mapping[NormalizedName, InstalledBuild],
) -> Resolution:
    """Resolve with only one member of each family whose members own the same files.

    A member that a package needs by its name, or that is installed independently of the family, is
    also the choice for the family's name.

    :param resolution: the resolution so far.
    :param again: resolves again, from other candidates.
    :param candidates: the candidates.
    :param around: the installed builds.
    :raises NoSolution: two members are needed by their names, or the needed member is not
        compatible.
    """
    if not candidates.is_for_one_machine:
        return resolution
    while True:
        chosen_by = candidates.within(resolution.context)
        clash = next(_clashes(resolution, chosen_by, around), None)
        if clash is None:
            return replace(resolution, leaving=_superseded(resolution, around, chosen_by))
        asked = _asked_by_name(clash, resolution, around)
        others = _others(clash, asked[0], candidates) if len(asked) == 1 else {}
        if not others:
            raise _refusal(clash)
        candidates = candidates.within(candidates.context.without(others))
        try:
            resolution = again(candidates)
        except NoFit as error:
            raise _refusal(clash, error.message) from None


def _clashes(
    resolution: Resolution, candidates: Candidates, around: Mapping[NormalizedName, InstalledBuild]
) -> Iterator[_Clash]:
    there = {*around, *(pin.name for pin in resolution.pins)}
    there -= _superseded(resolution, around, candidates).keys()
    for pin in resolution.pins:
        family = candidates.bridge(pin.name)
        if family is None or not family.exclusive or family.is_of_indexes:
            continue
        together = [name for name in family.distributions if name in there and name != pin.name]
        if _stands_for(pin, family) == pin.name:
            together.append(pin.name)
        if len(together) > 1:
            yield _Clash(family, tuple(together))


def _asked_by_name(
    clash: _Clash, resolution: Resolution, around: Mapping[NormalizedName, InstalledBuild]
) -> list[NormalizedName]:
    """Return the members that are there, or needed by something else than the family."""
    needed = {edge.needed for edge in resolution.edges if edge.needing != clash.family.name}
    needed |= {pin.name for pin in resolution.pins if pin.requested}
    needed |= around.keys()
    own = clash.family.name
    return [name for name in clash.members if name in needed and name != own]


def _others(clash: _Clash, member: NormalizedName, candidates: Candidates) -> dict[str, str]:
    """Return the wheels of a family that are not of one member, with the reason to exclude them."""
    listing = candidates.listing(clash.family.name)
    if listing is None:  # pragma: no cover - it was resolved
        return {}
    others = {}
    for version, release in listing.releases.items():
        labels = {
            one.label for one in clash.family.members_of(version) if one.distribution == member
        }
        for wheel in release.wheels:
            if wheel.filename.label not in labels and not candidates.is_rejected(wheel.filename):
                others[wheel.filename.text] = f"{member} is needed too, and owns the same files"
    return others


def _refusal(clash: _Clash, why: str = "") -> NoSolution:
    names = listed(clash.members)
    reasons = [f"all of them are builds of {clash.family.name}"]
    if why:
        reasons.append(f"one of them for all who need it will not do: {why}")
    return NoSolution(
        f"{names} own the same files, and only one of them can be installed",
        note="\n".join(reasons),
        hint="--override or --exclude says which of them is not needed",
    )
