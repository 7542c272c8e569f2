"""Verdicts on whether installed variants still fit the machine and each other (F-96, P-56)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.labels import NULL
from wheelfit.core.properties import PropertySet
from wheelfit.installation.installed import Installed, by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.findings import Check, Report, UncheckedTarget
    from wheelfit.core.abi_dependency import KnownVersions
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support

    DetectSupport = Callable[[VariantDocument, frozenset[str], KnownVersions], Support]


class FitVerdict(Struct, frozen=True):
    """The verdict on one installed variant."""

    variant: Installed
    refusals: tuple[tuple[Check, str], ...] = ()
    """The failed checks, each with its reason."""
    unchecked: UncheckedTarget | None = None

    @property
    def fits(self) -> bool | None:
        """Whether it still fits; None if unknown."""
        if self.refusals:
            return False
        return True if self.unchecked is None else None

    @property
    def reason(self) -> str:
        """The reason why it does not fit, or why that is unknown; empty if it fits."""
        if self.refusals:
            return "; ".join(reason for _, reason in self.refusals)
        return "" if self.unchecked is None else self.unchecked.message


def judge(
    installed: Iterable[Installed],
    detect_support: DetectSupport,
    *,
    new_versions: Mapping[NormalizedName, Version] = MappingProxyType({}),
) -> tuple[FitVerdict, ...]:
    """Return verdicts on the installed variants that can be imported.

    :param detect_support: returns the supported values for a document, some namespaces and the
        known versions, as `wheelfit.core.property_support.support_for`.
    :param new_versions: the packages to install beside them.
    """
    first = by_name(installed)
    variants = [
        entry
        for entry in first.values()
        if entry.label is not None and entry.name not in new_versions
    ]
    if not variants:
        return ()
    from wheelfit.core.abi_dependency import KnownVersion, KnownVersions

    versions = {**{name: entry.version for name, entry in first.items()}, **new_versions}
    known = KnownVersions({name: KnownVersion(version) for name, version in versions.items()})
    return tuple(_verdict(variant, detect_support, known) for variant in variants)


def _verdict(variant: Installed, detect_support: DetectSupport, known: KnownVersions) -> FitVerdict:
    from wheelfit.checking.findings import UncheckedTarget
    from wheelfit.core.property_support import namespaces_used
    from wheelfit_runtime.platforms.features import Status

    if variant.label == NULL:
        return FitVerdict(variant)  # it fits every machine
    where = str(variant.path)
    if variant.document is None or variant.label not in variant.document.variants:
        reason = f"the variant.json of {variant} is missing or invalid"
        return FitVerdict(variant, (), UncheckedTarget(where, "invalid-document", reason))
    support = detect_support(variant.document, namespaces_used([variant.properties]), known)
    detected = (Status.SUPPORTED, Status.NOTHING, Status.DISABLED)
    unknown = [
        namespace
        for namespace, detection in support.detections.items()
        if detection.status not in detected
    ]
    unchecked = None
    if unknown:
        reason = f"{variant} needs {', '.join(unknown)}, for which no provider is available here"
        hint = "`wheelfit probe` shows why"
        unchecked = UncheckedTarget(where, "unknown-namespace", reason, hint)
    refusals = _refusals(variant, variant.document, support, frozenset(unknown))
    return FitVerdict(variant, tuple(refusals), unchecked)


def _refusals(
    variant: Installed, document: VariantDocument, support: Support, unknown: frozenset[str]
) -> Iterator[tuple[Check, str]]:
    """Yield the failed checks: by the machine, then by the versions of other distributions."""
    from wheelfit.checking import checks
    from wheelfit.core.abi_dependency import abi_namespaces

    abi = abi_namespaces(document.providers)
    known = [item for item in variant.properties if item.namespace not in unknown]
    for check, properties in (
        (checks.UNSUPPORTED_HERE, [item for item in known if item.namespace not in abi]),
        (checks.BROKEN_BY_DEPENDENCY, [item for item in known if item.namespace in abi]),
    ):
        reason = support.refusal(PropertySet(properties))
        if reason is not None:
            yield check, reason


def report_on(verdicts: Sequence[FitVerdict]) -> Report:
    """Return the report of verdicts on installed variants."""
    from wheelfit.checking.findings import CheckedCounts, Location, Report

    findings = [
        Location(str(verdict.variant.path)).finding(check, f"{verdict.variant}: {reason}")
        for verdict in verdicts
        for check, reason in verdict.refusals
    ]
    unchecked = [verdict.unchecked for verdict in verdicts if verdict.unchecked is not None]
    return Report.of(findings, unchecked, CheckedCounts(installed_variants=len(verdicts)))
