"""The installed variants that a plan replaces by another build.

A build of the same version can differ as much as another version: it may need another driver, or
none. So a variant is never replaced without a report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.abi_dependency import abi_namespaces
from wheelfit.core.accelerators import accelerators_of
from wheelfit.core.agreements import Agreement, differing_agreement
from wheelfit.core.properties import PropertySet
from wheelfit.installation.installed import Installed, by_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument
    from wheelfit.installation.plan import Plan
    from wheelfit.resolution.resolution import Pin

PLAIN = "plain"
"""The word for a wheel without a label."""


class VariantChange(Struct, frozen=True):
    """The replacement of an installed build by another one, mostly one with another label."""

    old: Installed
    new: Pin
    reason: str
    """The reason, as a clause."""
    needs_consent: bool
    """Whether the user must agree: the old build was chosen among several, and the new one is for
    other hardware. Other changes are only reported.
    """

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, for ``--json``."""
        return {
            "name": self.old.name,
            "from": self.old.label,
            "to": self.new.label,
            "from_version": str(self.old.version),
            "to_version": str(self.new.version),
            "reason": self.reason,
            "needs_consent": self.needs_consent,
        }

    def __str__(self) -> str:
        old, new = self.old.label or PLAIN, self.new.label or PLAIN
        name = str(self.old.name)
        if self.old.version == self.new.version:
            return f"{name} {self.old.version} {old} -> {new}, because {self.reason}"
        versions = f"{self.old.version} {old} -> {self.new.version} {new}"
        return f"{name} {versions}, because {self.reason}"


def variant_changes(
    plan: Plan,
    installed: Iterable[Installed],
    misfits: Mapping[NormalizedName, str],
    agreements: Sequence[Agreement],
) -> tuple[VariantChange, ...]:
    """Return the builds that a plan replaces by another one, in its order.

    Publishers define labels for each release, so two builds with one label may differ, as in their
    CUDA major.

    A plain wheel replaced by a variant is only reported, since it was not chosen among builds,
    unless it was installed with a preference that excluded such a variant. A variant, too, is only
    reported if its successor differs only in the versions of other packages that it was built for
    (P-56).

    :param misfits: why installed variants cannot stay, by name.
    :param agreements: the requirements on all builds of an environment, such as one CUDA major.
    """
    installed_by_name = by_name(installed)
    changes = []
    for pin in plan.install:
        old = installed_by_name.get(pin.name)
        if old is None:
            continue
        if old.label != pin.label:
            reason, needs_consent = _selection_reason(old, pin), _needs_consent(old, pin)
        elif (agreement := _changed_agreement(old, pin, agreements)) is not None:
            reason, needs_consent = _agreement_reason(agreement, old, pin), True
        else:
            continue
        clause = _clause(misfits.get(pin.name, reason), old.label or PLAIN)
        changes.append(VariantChange(old, pin, clause, needs_consent))
    return tuple(changes)


def _changed_agreement(
    old: Installed, pin: Pin, agreements: Sequence[Agreement]
) -> Agreement | None:
    """Return the agreement in which a build of the same label differs, as in its CUDA."""
    if not (old.properties and pin.properties):
        return None
    return differing_agreement(old.properties, pin.properties, agreements)


def _clause(reason: str, build: str) -> str:
    """Return a reason as a clause of its own, with the build as its subject if it has none."""
    return f"{build} {reason}" if reason.startswith(("needs ", "is ")) else reason


def _agreement_reason(agreement: Agreement, old: Installed, pin: Pin) -> str:
    before, after = agreement.values(old.properties), agreement.values(pin.properties)
    built = (
        f"built for {agreement.in_words(after)}" if after else f"not built for {agreement.title}"
    )
    was = f"for {agreement.in_words(before)}" if before else f"not for {agreement.title}"
    return f"{pin.label} of {pin.name} {pin.version} is {built}, and the installed one {was}"


def _selection_reason(old: Installed, pin: Pin) -> str:
    """Return the reason why the installed label was not chosen in the new release."""
    for verdict in pin.choice.selection.verdicts:
        if verdict.filename.label == old.label:
            return verdict.reason.removeprefix("compatible; ")
    return f"{pin.name} {pin.version} has no build {old.label or PLAIN}"


def _needs_consent(old: Installed, pin: Pin) -> bool:
    if old.label is None:
        return any(_excludes(option, pin.properties) for option in old.excluding_options)
    if not (old.properties and pin.properties):
        return True  # the hardware of a build without properties is unknown
    document = pin.choice.metadata.document
    return _machine_properties(old.properties, old.document) != _machine_properties(
        pin.properties, document
    )


def _excludes(option: str, properties: PropertySet) -> bool:
    """Return whether an option of the installation excludes a build."""
    name, _, value = option.partition(" ")
    if name == "--forbid":
        return value.partition("::")[0].strip() in properties.namespaces
    if name == "--no-variants":
        return True
    return bool(accelerators_of(properties))  # --variant, as cpu


def _machine_properties(properties: PropertySet, document: VariantDocument | None) -> PropertySet:
    """Return properties without those about versions of other packages."""
    abi = frozenset[str]() if document is None else abi_namespaces(document.providers)
    return PropertySet(item for item in properties if item.namespace not in abi)
