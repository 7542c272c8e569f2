"""The accelerators of the machine, and options by which builds for them are chosen."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from wheelfit.core import phrases
from wheelfit.core.accelerators import (
    ACCELERATORS,
    accelerator_extras,
    accelerators_of,
    is_for_accelerator,
    library_needs,
    owner_of_libraries,
    platform_in_words,
)
from wheelfit.core.bridges import BridgeFamily, FamilyMember, document_of
from wheelfit.core.properties import Feature
from wheelfit.resolution.accelerator_use import AcceleratorContext, Remedy
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.words import THIS_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support
    from wheelfit.core.requirements import Requirement
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin, Resolution

WITHOUT_OPTION = "leaving out --no-bridges"
"""The remedy for a family that is in use by default, if an option has turned it off."""


class Remedies:
    """The builds that are better for the machine than those of a result."""

    def __init__(self, resolution: Resolution, context: AcceleratorContext) -> None:
        self.resolution = resolution
        self.context = context
        self.pins = {pin.name: pin for pin in resolution.pins}
        self._supports: dict[str, Support] = {}

    # --- the machine --------------------------------------------------------------------------

    def support(self, namespace: str) -> Support | None:
        """Return the support of the machine for a namespace; None if unknown."""
        if namespace not in self._supports:
            document = _document(document_of((namespace,)))
            self._supports[namespace] = self.context.support_of(document, [namespace])
        support = self._supports[namespace]
        detection = support.detections.get(namespace)
        is_known = detection is not None and detection.status in (Status.SUPPORTED, Status.NOTHING)
        return support if is_known else None

    def machine_name(self, namespace: str) -> str:
        """Return the name of the machine that was examined for a namespace."""
        support = self.support(namespace)
        return THIS_MACHINE if support is None else support.examined.get(namespace, THIS_MACHINE)

    def is_allowed(self, namespace: str) -> bool:
        """Return whether the user allows builds for an accelerator."""
        return ACCELERATORS[namespace] not in self.context.policy.preferences.forbid

    def is_usable(self, namespace: str, majors: Iterable[str]) -> bool:
        """Return whether the machine can use libraries of some major versions, if allowed."""
        if not self.is_allowed(namespace):
            return False
        support = self.support(namespace)
        if support is None or not is_present(support, namespace):
            return False
        return not any(unmet_library_need(support, namespace, major) for major in majors)

    # --- the builds ---------------------------------------------------------------------------

    @cached_property
    def users_of_libraries(self) -> frozenset[NormalizedName]:
        """Direct and indirect dependents of an accelerator's libraries, and family members."""
        dependents_by_name: dict[NormalizedName, list[NormalizedName]] = {}
        members = set()
        for edge in self.resolution.edges:
            dependents_by_name.setdefault(edge.needed, []).append(edge.needing)
            pin = self.pins.get(edge.needing)
            # The selector wheel of a family requires the chosen member.
            if pin is not None and pin.file.is_selector:
                members.add(edge.needed)
        pending: list[NormalizedName] = [
            name for name in dependents_by_name if owner_of_libraries(name)
        ]
        dependents: set[NormalizedName] = set()
        while pending:
            for name in dependents_by_name.get(pending.pop(), ()):
                if name not in dependents:
                    dependents.add(name)
                    pending.append(name)
        return frozenset(dependents | members)

    def bridge_remedy(self, name: NormalizedName) -> Remedy | None:
        """Return the remedy by an unused family with a build for the machine; None without one."""
        pin = self.pins.get(name)
        is_possible = self.context.policy.preferences.variants and self.context.bridge(name) is None
        if pin is None or not is_possible:
            return None
        best = (self.best_member(family, pin) for family in self.context.policy.families(name))
        remedies = [remedy for _, remedy in filter(None, best)]
        # A build that uses another accelerator is better than a build for any machine.
        return min(remedies, key=lambda remedy: remedy.is_for_any_machine, default=None)

    def owner_remedy(self, name: NormalizedName) -> tuple[str, Remedy] | None:
        """Return the remedy for a plain wheel that was chosen although its family is in use.

        The indexes of the family may have been unreachable.

        :return: the name of the family, with the remedy; None without one.
        """
        family, pin = self.context.bridge(name), self.pins.get(name)
        if family is None or pin is None or not family.is_of_indexes:
            return None
        best = self.best_member(family, pin)
        return None if best is None else (family.name, best[1])

    def best_member(self, family: BridgeFamily, pin: Pin) -> tuple[FamilyMember, Remedy] | None:
        """Return the member of a family to take in place of a plain wheel, with the remedy.

        As in a bridge, a member that uses an accelerator is better than a newer release without
        one.
        """
        # Members that differ in their names stand for one project, the family's.
        project = pin.name if family.is_of_indexes else family.name
        members = [
            member
            for member in family.members
            if member.covers_project(project) and member.covers_tags(pin.filename.tags)
        ]
        document = _document(family.document(family.members))
        namespaces = {name for member in members for name in member.when.namespaces}
        support = self.context.support_of(document, namespaces)
        accelerated: list[FamilyMember] = []
        plain: list[FamilyMember] = []
        for member in members:
            accelerators = accelerators_of(member.when)
            if not all(map(self.is_allowed, accelerators)):
                continue
            if support.refusal(member.when) is not None:
                continue
            if accelerators:
                accelerated.append(member)
            elif member.covers_release(project, pin.version):
                plain.append(member)
        for member in (*accelerated, *plain[:1]):
            remedy = self._remedy(family, pin.name, member)
            if remedy is not None:
                return member, remedy
        return None

    def _remedy(
        self, family: BridgeFamily, name: NormalizedName, member: FamilyMember
    ) -> Remedy | None:
        """Return the remedy that installs a member; None if it is in use or has no wheel."""
        if family.is_of_indexes:
            if member.is_of_registry:
                return None
            accelerators = accelerators_of(member.when)
            build = (
                platform_in_words(accelerators[0], member.when) if accelerators else member.location
            )
            return Remedy(f"--bridge {family.name}", build, is_for_any_machine=not accelerators)
        if member.label is None or member.distribution == name:
            return None
        turned_off_by = self.context.policy.bridges_off
        if family.by_default and not turned_off_by:
            return None  # it is in use already
        candidates = self.context.candidates
        if candidates is not None and not _has_wheel(candidates, member):
            return None
        option = f"--bridge {family.name}"
        if family.by_default:
            option = WITHOUT_OPTION if turned_off_by == "option" else "--bridge default"
        return Remedy(option, member.distribution, is_for_any_machine=not member.when)

    def option_text(self, remedies: Sequence[Remedy]) -> str:
        """Return the options that the remedies consist of, as they are typed."""
        options = dict.fromkeys(remedy.text for remedy in remedies if remedy.text != WITHOUT_OPTION)
        if self.context.lock:
            return f"`{self.context.lock} {' '.join(options)}`"
        if self.context.policy.bridges_off == "option":
            return f"{' '.join(options)} in place of --no-bridges" if options else WITHOUT_OPTION
        return " ".join(options)


def device_of(namespace: str) -> str:
    """Return the name of a device, such as ``NVIDIA GPU``."""
    family = providers.by_namespace(namespace)
    return namespace if family is None else family.device_without_article


def is_present(support: Support, namespace: str) -> bool:
    """Return whether an accelerator with a driver was detected.

    Without one, ``tpu :: present`` has the value ``false``.
    """
    features = support.detections[namespace].features
    return any(config.values and config.values != ("false",) for config in features)


def unmet_library_need(support: Support, namespace: str, major: str) -> str:
    """Return the unmet requirement of libraries of a major version; empty if none is known."""
    for need in library_needs(namespace, major):
        feature = Feature(namespace, need.feature)
        if support.values(namespace, need.feature) and not support.supports(need):
            machine = support.examined.get(namespace, THIS_MACHINE)
            return phrases.describe_unmet_feature(
                feature, (need.value,), support.detections[namespace], machine
            )
    return ""


def needs_of_extras(
    core: CoreMetadata, environment: Mapping[str, str]
) -> Mapping[str, list[Requirement]]:
    """Return the requirements for an accelerator in extras, by extra."""
    needs: dict[str, list[Requirement]] = {}
    for extra in accelerator_extras(core):
        with suppress(WheelfitError):  # read errors are reported where the data is needed
            requirements = [
                requirement
                for requirement in core.requires
                if is_for_accelerator(requirement.name, extra)
                and _is_of_extra(requirement, extra, environment)
            ]
            if requirements:
                needs[extra] = requirements
    return needs


def _is_of_extra(requirement: Requirement, extra: str, environment: Mapping[str, str]) -> bool:
    extras = frozenset((extra,))
    return not requirement.applies(environment) and requirement.applies(environment, extras)


def _document(content: Mapping[str, object]) -> VariantDocument:
    """Return variant metadata by which the support of a machine is determined."""
    from wheelfit.core.metadata import read_document

    return read_document(json.dumps(content).encode(), where="accelerators")


def _has_wheel(candidates: Candidates, member: FamilyMember) -> bool:
    """Return whether a member has a wheel for the target; reads the page of one project."""
    listing = None
    with suppress(WheelfitError):
        listing = candidates.listing(member.distribution)
    return listing is not None and any(
        wheel.rejection is None and not wheel.is_yanked
        for version, release in listing.releases.items()
        if member.versions.contains(version, prereleases=True)
        for wheel in release.wheels
    )
