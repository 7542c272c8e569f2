"""Accelerators that a result leaves idle, though another build would use them."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from wheelfit.core.accelerators import (
    ACCELERATORS,
    accelerators_of,
    library_major,
    owner_of_libraries,
)
from wheelfit.core.sizes import size_in_words
from wheelfit.resolution.accelerator_remedies import device_of, needs_of_extras
from wheelfit.resolution.accelerator_use import AcceleratorUse, Remedy
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.core.requirements import Requirement
    from wheelfit.resolution.accelerator_remedies import Remedies
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin
    from wheelfit_runtime.platforms.hardware_family import HardwareFamily


def idle_accelerators(
    arriving: Collection[NormalizedName], remedies: Remedies
) -> Iterator[AcceleratorUse]:
    """Yield the idle accelerators, each once.

    :param arriving: the new packages; others are not reported.
    :param remedies: the result, with builds that would suit the machine better.
    """
    yield from _Idle(arriving, remedies).found()


class _Idle:
    """The search for such accelerators beside one result."""

    def __init__(self, arriving: Collection[NormalizedName], remedies: Remedies) -> None:
        self._arriving = arriving
        self._remedies = remedies

    def found(self) -> Iterator[AcceleratorUse]:
        """Yield the accelerators left idle although another build would use them."""
        if not self._remedies.around.policy.preferences.variants:
            return
        by_namespace: dict[str, dict[NormalizedName, Remedy]] = {}
        for name in self._arriving:
            pin = self._remedies.pins.get(name)
            if pin is not None and self._may_be_idle(pin):
                for namespace, remedy in self._uses(pin):
                    by_namespace.setdefault(namespace, {})[name] = remedy
        for namespace, remedies in by_namespace.items():
            yield self._idle(namespace, remedies)
        yield from self._without_builds()

    def _without_builds(self) -> Iterator[AcceleratorUse]:
        """Yield the accelerators left idle by packages with builds for others only."""
        idle: dict[tuple[str, str], list[NormalizedName]] = {}
        for name in self._arriving:
            pin = self._remedies.pins.get(name)
            if pin is None or pin.is_given or accelerators_of(pin.properties):
                continue
            for namespace, why in self._lacking_builds(name):
                idle.setdefault((namespace, why), []).append(name)
        for (namespace, why), names in idle.items():
            line = (
                f"{listed(names)} {'leaves' if len(names) == 1 else 'leave'} the "
                f"{device_of(namespace)} of {self._remedies.holder(namespace)} idle: {why}"
            )
            yield AcceleratorUse("idle", namespace, tuple(names), (), None, (), line)

    def _lacking_builds(self, name: NormalizedName) -> Iterator[tuple[str, str]]:
        """Yield the accelerators of the machine that no build of a family uses, with the reason."""
        around = self._remedies.around
        family, candidates = around.bridge(name), around.candidates
        if family is None or candidates is None:
            return
        using = [
            member
            for member in family.members
            if member.is_for(name) and accelerators_of(member.when)
        ]
        made_for = _accelerators(using)
        if not made_for:
            return
        from wheelfit.resolution.bridges import members_for

        fitting = list(filter(partial(members_for(candidates), family), using))
        interpreters = _interpreters(candidates, name, family, fitting)
        if interpreters is None:
            return  # another release has a build for the machine, which is reported already
        devices = listed([_hardware(one).devices for one in made_for])
        for namespace in self._present:
            if interpreters and namespace in _accelerators(fitting):
                yield namespace, f"builds that use it are for {listed(interpreters)}"
            elif namespace in made_for:
                yield namespace, "no build that uses one is for this machine"
            else:
                yield namespace, f"there are builds for {devices} only"

    @cached_property
    def _present(self) -> tuple[str, ...]:
        """The namespaces of the accelerators that the machine has to compute."""
        return tuple(
            namespace
            for namespace in ACCELERATORS
            if not _hardware(namespace).is_part_of_processors
            and self._remedies.is_usable(namespace, ())
        )

    def _may_be_idle(self, pin: Pin) -> bool:
        """Return whether the accelerator use of a package is not stated."""
        return (
            not accelerators_of(pin.properties)
            and pin.choice.metadata.document is None  # variants have cautions of their own
            and pin.version.local is None  # which names a build that was chosen
            and not pin.is_given
            and owner_of_libraries(pin.name) is None
            and pin.name not in self._remedies.with_libraries
        )

    def _needs_libraries(self, pin: Pin) -> bool:
        """Return whether a wheel needs libraries of an accelerator, whether they come or not."""
        if pin.core is None:
            # Locks of other tools do not list dependencies.
            return any(map(owner_of_libraries, self._remedies.pins))
        with suppress(WheelfitError):
            return any(
                owner_of_libraries(one.name) is not None
                and one.applies(self._remedies.around.environment, pin.extras or "", pin.context)
                for one in pin.core.requires
            )
        return False

    def _uses(self, pin: Pin) -> Iterator[tuple[str, Remedy]]:
        """Yield the namespaces of accelerators that a package could use, with the remedy."""
        extras, families = list(self._extras(pin)), self._remedies.around.policy.families(pin.name)
        if not (extras or families) or _names_builds(pin.name) or self._needs_libraries(pin):
            return
        told: set[str] = set()
        counting = self._remedies.around.bridge(pin.name)
        covered = set() if counting is None else {*_accelerators(counting.members)}
        for extra, namespace, majors in extras:
            if namespace not in told | covered and self._remedies.is_usable(namespace, majors):
                size = self._size_with(pin, extra)
                if size is not None:
                    told.add(namespace)
                    yield namespace, Remedy(f"{pin.name}[{extra}]", size=size)
        for family in families:
            # Of several projects the first is what the others are made for.
            if counting is not None or pin.name != family.projects[0]:
                continue
            if not any(accelerators_of(one.when) for one in family.members):
                continue
            remedy_of_member = self._remedies.best(family, pin)
            if remedy_of_member is None:
                continue
            member, remedy = remedy_of_member
            for namespace in accelerators_of(member.when):
                if namespace not in told:
                    told.add(namespace)
                    yield namespace, remedy

    def _extras(self, pin: Pin) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield extras with the libraries of an accelerator: namespace and majors, newest first.

        :return: nothing for a package whose extras or name show that they are there already.
        """
        needs = needs_of_extras(pin.core, self._remedies.around.environment) if pin.core else {}
        everything = {*self._remedies.pins, *self._remedies.around.there}
        rows: list[tuple[str, str, tuple[str, ...]]] = []
        for extra, needed in needs.items():
            others = {one.name for one in needed if owner_of_libraries(one.name) is None}
            if extra in pin.extras or others & everything:
                return
            owners = dict.fromkeys(filter(None, (owner_of_libraries(one.name) for one in needed)))
            majors = dict.fromkeys(filter(None, map(_major_of, needed)))
            rows += [(extra, owner, tuple(majors)) for owner in owners]
            build = None if owners else _build_of(extra)
            if build is not None:
                rows.append((extra, *build))
        yield from sorted(rows, key=lambda row: [*map(int, row[2])], reverse=True)

    def _size_with(self, pin: Pin, extra: str) -> int | None:
        """Return the bytes that an extra adds to the download; None: it is not available."""
        candidates = self._remedies.around.candidates
        if candidates is None:
            return None
        from wheelfit.core.requirements import Requirement
        from wheelfit.resolution.request import (
            RequestedRequirement,
            ResolutionRequest,
        )
        from wheelfit.resolution.resolver import resolve

        exactly = SpecifierSet(f"=={pin.version}")
        wanted = Requirement(pin.name, frozenset((extra,)), exactly)  # type: ignore[arg-type]
        asked = ResolutionRequest(
            (RequestedRequirement(wanted),), prereleases=pin.version.is_prerelease
        )
        try:
            with_extra = resolve(asked, candidates)
        except WheelfitError:
            return None
        return sum(
            one.file.size or 0
            for one in with_extra.pins
            if one.name not in self._remedies.pins
            and (owner_of_libraries(one.name) is not None or f"-{extra}-" in one.name)
        )

    def _idle(self, namespace: str, remedies: Mapping[NormalizedName, Remedy]) -> AcceleratorUse:
        several = len(remedies) > 1
        bridges = [remedy for remedy in remedies.values() if remedy.build]
        extras = [remedy for remedy in remedies.values() if not remedy.build]
        helps = []
        size = sum(extra.size or 0 for extra in extras) or None
        if extras:
            words = listed([extra.words for extra in extras])
            more = f" ({size_in_words(size)} more)" if size else ""
            helps.append(f"{words} {'use' if len(extras) > 1 else 'uses'} it{more}")
        if bridges:
            builds = listed(list(dict.fromkeys(bridge.build for bridge in bridges)))
            many = len({bridge.words for bridge in bridges}) > 1
            what = "take builds that use it" if many else "takes a build that uses it"
            helps.append(f"{self._remedies.typed(bridges)} {what} ({builds})")
        verb = "leave" if several else "leaves"
        line = (
            f"{listed(list(remedies))} {verb} the {device_of(namespace)} of "
            f"{self._remedies.holder(namespace)} idle; {'; '.join(helps)}"
        )
        words_of_all = dict.fromkeys(remedy.words for remedy in remedies.values())
        return AcceleratorUse("idle", namespace, tuple(remedies), (), size, (*words_of_all,), line)


def _accelerators(members: Iterable[FamilyMember]) -> tuple[str, ...]:
    """Return the namespaces of the accelerators that members of a family use."""
    return tuple(dict.fromkeys(name for member in members for name in accelerators_of(member.when)))


def _interpreters(
    candidates: Candidates,
    name: NormalizedName,
    family: BridgeFamily,
    members: Sequence[FamilyMember],
) -> list[str] | None:
    """Return the Pythons of a family's builds for a platform; None: one is for the Python there.

    :param members: the members whose builds count.
    """
    platforms = {tag.platform for tag in candidates.target.tags}
    interpreters: dict[str, None] = {}
    listing = candidates.listing(name)
    for release in () if listing is None else listing.releases.values():
        for wheel in release.wheels:
            if family.member_of_wheel(wheel.filename) in members:
                if wheel.rejection is None:
                    return None
                tags = wheel.filename.tags
                interpreters |= {tag.interpreter: None for tag in tags if tag.platform in platforms}
    return list(interpreters)


def _hardware(namespace: str) -> HardwareFamily:
    return next(
        accelerator
        for accelerator in providers.accelerators()
        if accelerator.namespace == namespace
    )


def _major_of(need: Requirement) -> str | None:
    """Return the major of the libraries in a requirement."""
    versions = [clause.version for clause in need.specifier if clause.operator != "!="]
    return library_major(need.name, versions[0] if versions else "")


def _names_builds(project: str) -> bool:
    """Return whether a project's name states its accelerator, or that it has none."""
    from wheelfit.core.shorthands import names_builds

    return names_builds(project)


def _build_of(extra: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the accelerator and major of an extra with the name of a build."""
    from wheelfit.core.shorthands import find_shorthand, is_built_in

    if not is_built_in(extra):
        return None
    place = find_shorthand(extra).place
    wishes = find_shorthand(extra).require
    namespaces = [name for name, wish in ACCELERATORS.items() if wish in wishes]
    return (namespaces[0], tuple(place[1:2])) if namespaces else None
