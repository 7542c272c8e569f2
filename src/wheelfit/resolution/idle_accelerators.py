"""Accelerators of the machine that a result does not use, although other builds do."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from wheelfit.core.accelerators import (
    ACCELERATORS,
    accelerators_of,
    library_major,
    owner_of_libraries,
)
from wheelfit.core.sizes import size_in_words
from wheelfit.resolution.accelerator_remedies import Remedies, device_of, needs_of_extras
from wheelfit.resolution.accelerator_use import AcceleratorRemark, Remedy
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.core.requirements import Requirement
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin
    from wheelfit_runtime.platforms.hardware_family import HardwareFamily


class IdleAccelerators:
    """The idle accelerators of a result, each reported once.

    :param new_packages: the packages to report: those that the result adds or replaces.
    """

    def __init__(self, new_packages: Collection[NormalizedName], remedies: Remedies) -> None:
        self._new_packages = new_packages
        self._remedies = remedies

    def remarks(self) -> Iterator[AcceleratorRemark]:
        """Yield the idle accelerators, with remedies where there are any."""
        if not self._remedies.context.policy.preferences.variants:
            return
        by_namespace: dict[str, dict[NormalizedName, Remedy]] = {}
        for name in self._new_packages:
            pin = self._remedies.pins.get(name)
            if pin is not None and self._may_be_idle(pin):
                for namespace, remedy in self._possible_uses(pin):
                    by_namespace.setdefault(namespace, {})[name] = remedy
        for namespace, remedies in by_namespace.items():
            yield self._remark_with_remedies(namespace, remedies)
        yield from self._remarks_without_remedies()

    def _remarks_without_remedies(self) -> Iterator[AcceleratorRemark]:
        """Yield the accelerators that are idle because packages have builds for others only."""
        by_reason: dict[tuple[str, str], list[NormalizedName]] = {}
        for name in self._new_packages:
            pin = self._remedies.pins.get(name)
            if pin is None or pin.is_direct or accelerators_of(pin.properties):
                continue
            for namespace, reason in self._missing_builds(name):
                by_reason.setdefault((namespace, reason), []).append(name)
        for (namespace, reason), names in by_reason.items():
            line = (
                f"{listed(names)} {'leaves' if len(names) == 1 else 'leave'} the "
                f"{device_of(namespace)} of {self._remedies.machine_name(namespace)} idle: {reason}"
            )
            yield AcceleratorRemark("idle", namespace, tuple(names), (), None, (), line)

    def _missing_builds(self, name: NormalizedName) -> Iterator[tuple[str, str]]:
        """Yield the accelerators of the machine that no build of a family uses, with the reason."""
        context = self._remedies.context
        family, candidates = context.bridge(name), context.candidates
        if family is None or candidates is None:
            return
        accelerated = [
            member
            for member in family.members
            if member.covers_project(name) and accelerators_of(member.when)
        ]
        used_namespaces = _accelerators(accelerated)
        if not used_namespaces:
            return
        from wheelfit.resolution.bridges import members_for

        is_usable = members_for(candidates)
        usable = [member for member in accelerated if is_usable(family, member)]
        interpreters = _interpreters(candidates, name, family, usable)
        if interpreters is None:
            return  # a build for this Python exists in another release, which is reported elsewhere
        devices = listed([_hardware(namespace).devices for namespace in used_namespaces])
        for namespace in self._present_accelerators:
            if interpreters and namespace in _accelerators(usable):
                yield namespace, f"builds that use it are for {listed(interpreters)}"
            elif namespace in used_namespaces:
                yield namespace, "no build that uses one is for this machine"
            else:
                yield namespace, f"there are builds for {devices} only"

    @cached_property
    def _present_accelerators(self) -> tuple[str, ...]:
        """The namespaces of the machine's accelerators, without parts of processors."""
        return tuple(
            namespace
            for namespace in ACCELERATORS
            if not _hardware(namespace).is_part_of_processors
            and self._remedies.is_usable(namespace, ())
        )

    def _may_be_idle(self, pin: Pin) -> bool:
        """Return whether nothing shows that a package uses an accelerator."""
        return (
            not accelerators_of(pin.properties)
            and pin.choice.metadata.document is None  # variants have notes of their own
            and pin.version.local is None  # a local version names the build
            and not pin.is_direct
            and owner_of_libraries(pin.name) is None
            and pin.name not in self._remedies.users_of_libraries
        )

    def _needs_libraries(self, pin: Pin) -> bool:
        """Return whether a wheel requires libraries of an accelerator, installed or not."""
        if pin.core is None:
            # The dependencies are unknown, as in locks of other tools.
            return any(map(owner_of_libraries, self._remedies.pins))
        environment = self._remedies.context.environment
        with suppress(WheelfitError):
            return any(
                owner_of_libraries(requirement.name) is not None
                and requirement.applies(environment, pin.extras or "", pin.context)
                for requirement in pin.core.requires
            )
        return False

    def _possible_uses(self, pin: Pin) -> Iterator[tuple[str, Remedy]]:
        """Yield the namespaces of accelerators that a package could use, each with a remedy."""
        from wheelfit.core.shorthands import names_builds

        extras, families = list(self._extras(pin)), self._remedies.context.policy.families(pin.name)
        if not (extras or families) or names_builds(pin.name) or self._needs_libraries(pin):
            return
        reported: set[str] = set()
        family_in_use = self._remedies.context.bridge(pin.name)
        covered = set() if family_in_use is None else {*_accelerators(family_in_use.members)}
        for extra, namespace, majors in extras:
            if namespace not in reported | covered and self._remedies.is_usable(namespace, majors):
                size = self._size_with(pin, extra)
                if size is not None:
                    reported.add(namespace)
                    yield namespace, Remedy(f"{pin.name}[{extra}]", size=size)
        if family_in_use is not None:
            return
        for family in families:
            # Only the first project of a family is reported: the others are built for it.
            if pin.name != family.projects[0] or not _accelerators(family.members):
                continue
            best = self._remedies.best_member(family, pin)
            if best is None:
                continue
            member, remedy = best
            for namespace in accelerators_of(member.when):
                if namespace not in reported:
                    reported.add(namespace)
                    yield namespace, remedy

    def _extras(self, pin: Pin) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield extras with libraries of an accelerator, newest libraries first.

        :return: the extra, the namespace and the major versions. Nothing if one of the extras is
            requested already, or needs an installed package that is no library.
        """
        needs = needs_of_extras(pin.core, self._remedies.context.environment) if pin.core else {}
        installed = {*self._remedies.pins, *self._remedies.context.installed}
        rows: list[tuple[str, str, tuple[str, ...]]] = []
        for extra, requirements in needs.items():
            owners: dict[str, None] = {}
            other_requirements: set[NormalizedName] = set()
            for requirement in requirements:
                owner = owner_of_libraries(requirement.name)
                if owner is None:
                    other_requirements.add(requirement.name)
                else:
                    owners[owner] = None
            if extra in pin.extras or other_requirements & installed:
                return
            majors = tuple(dict.fromkeys(filter(None, map(_major_of, requirements))))
            rows += [(extra, owner, majors) for owner in owners]
            build = None if owners else _build_of(extra)
            if build is not None:
                rows.append((extra, *build))
        yield from sorted(rows, key=lambda row: [*map(int, row[2])], reverse=True)

    def _size_with(self, pin: Pin, extra: str) -> int | None:
        """Return the bytes that an extra adds to the download; None if it cannot be resolved."""
        candidates = self._remedies.context.candidates
        if candidates is None:
            return None
        from wheelfit.core.requirements import Requirement
        from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest
        from wheelfit.resolution.resolver import resolve

        specifier = SpecifierSet(f"=={pin.version}")
        requirement = Requirement(pin.name, frozenset((extra,)), specifier)  # type: ignore[arg-type]
        request = ResolutionRequest(
            (RequestedRequirement(requirement),), prereleases=pin.version.is_prerelease
        )
        try:
            with_extra = resolve(request, candidates)
        except WheelfitError:
            return None
        # Packages of the extra have its name in theirs, as jax-cuda12-plugin that of jax[cuda12].
        return sum(
            pin_of_extra.file.size or 0
            for pin_of_extra in with_extra.pins
            if pin_of_extra.name not in self._remedies.pins
            and (
                owner_of_libraries(pin_of_extra.name) is not None
                or f"-{extra}-" in pin_of_extra.name
            )
        )

    def _remark_with_remedies(
        self, namespace: str, remedies: Mapping[NormalizedName, Remedy]
    ) -> AcceleratorRemark:
        bridges = [remedy for remedy in remedies.values() if remedy.build]
        extras = [remedy for remedy in remedies.values() if not remedy.build]
        sentences = []
        size = sum(extra.size or 0 for extra in extras) or None
        if extras:
            requirements = listed([extra.text for extra in extras])
            cost = f" ({size_in_words(size)} more)" if size else ""
            sentences.append(f"{requirements} {'use' if len(extras) > 1 else 'uses'} it{cost}")
        if bridges:
            builds = listed(list(dict.fromkeys(bridge.build for bridge in bridges)))
            is_plural = len({bridge.text for bridge in bridges}) > 1
            effect = "take builds that use it" if is_plural else "takes a build that uses it"
            sentences.append(f"{self._remedies.option_text(bridges)} {effect} ({builds})")
        line = (
            f"{listed(list(remedies))} {'leave' if len(remedies) > 1 else 'leaves'} the "
            f"{device_of(namespace)} of {self._remedies.machine_name(namespace)} idle; "
            f"{'; '.join(sentences)}"
        )
        texts = dict.fromkeys(remedy.text for remedy in remedies.values())
        return AcceleratorRemark("idle", namespace, tuple(remedies), (), size, (*texts,), line)


def _accelerators(members: Iterable[FamilyMember]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for member in members for name in accelerators_of(member.when)))


def _interpreters(
    candidates: Candidates,
    name: NormalizedName,
    family: BridgeFamily,
    members: Sequence[FamilyMember],
) -> list[str] | None:
    """Return the tags of the Pythons for which there are builds for the target's platform.

    :return: None if a build is for the Python of the target.
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


def _major_of(requirement: Requirement) -> str | None:
    """Return the major version of required libraries; None if the requirement has none."""
    versions = [clause.version for clause in requirement.specifier if clause.operator != "!="]
    return library_major(requirement.name, versions[0] if versions else "")


def _build_of(extra: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the namespace and major version that the name of an extra states: ``cuda12``."""
    from wheelfit.core.shorthands import find_shorthand, is_built_in

    if not is_built_in(extra):
        return None
    shorthand = find_shorthand(extra)
    for namespace, accelerator in ACCELERATORS.items():
        if accelerator in shorthand.require:
            return namespace, shorthand.path[1:2]  # the major version in ("cuda", "12")
    return None
