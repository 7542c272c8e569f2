"""Verdicts on whether installed variants still fit the machine and each other (F-96, P-56)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedCounts, Location, Report, UncheckedTarget
from wheelfit.core.abi_dependency import KnownVersion, KnownVersions, abi_namespaces
from wheelfit.core.labels import NULL
from wheelfit.core.properties import PropertySet
from wheelfit.core.property_support import namespaces_used
from wheelfit_runtime.platforms.features import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.findings import Check
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.property_support import Support

    DetectSupport = Callable[[VariantDocument, frozenset[str], KnownVersions], Support]


@dataclass(frozen=True, slots=True)
class InstalledVariant:
    """A variant wheel that is installed, as its ``.dist-info`` folder describes it."""

    where: str
    """Its ``.dist-info`` folder."""
    name: NormalizedName
    version: Version
    label: Label
    properties: PropertySet
    document: VariantDocument | None
    """Its ``variant.json``; None if that is missing or invalid."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.label})"


_DETECTED = (Status.SUPPORTED, Status.NOTHING, Status.DISABLED)


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """The verdict on one installed variant."""

    variant: InstalledVariant
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


def judge_installed(
    variants: Iterable[InstalledVariant],
    versions: Mapping[NormalizedName, Version],
    detect_support: DetectSupport,
) -> Iterator[FitVerdict]:
    """Yield verdicts on installed variants, given the machine and the other distributions.

    :param detect_support: returns the supported values for a document, some namespaces and the
        known versions, as `wheelfit.core.property_support.support_for`.
    """
    known_versions = KnownVersions(
        {name: KnownVersion(version) for name, version in versions.items()}
    )
    for variant in variants:
        if variant.label == NULL:
            yield FitVerdict(variant)  # it fits every machine
            continue
        if variant.document is None or variant.label not in variant.document.variants:
            reason = f"the variant.json of {variant} is missing or invalid"
            yield FitVerdict(
                variant, (), UncheckedTarget(variant.where, "invalid-document", reason)
            )
            continue
        support = detect_support(
            variant.document, namespaces_used([variant.properties]), known_versions
        )
        unknown = [
            namespace
            for namespace, detection in support.detections.items()
            if detection.status not in _DETECTED
        ]
        unchecked = None
        if unknown:
            reason = (
                f"{variant} needs {', '.join(unknown)}, for which no provider is available here"
            )
            hint = "`wheelfit probe` shows why"
            unchecked = UncheckedTarget(variant.where, "unknown-namespace", reason, hint)
        refusals = _refusals(variant, variant.document, support, frozenset(unknown))
        yield FitVerdict(variant, tuple(refusals), unchecked)


def report_on(verdicts: Sequence[FitVerdict]) -> Report:
    """Return the report of verdicts on installed variants."""
    findings = [
        Location(verdict.variant.where).finding(check, f"{verdict.variant}: {reason}")
        for verdict in verdicts
        for check, reason in verdict.refusals
    ]
    unchecked = [verdict.unchecked for verdict in verdicts if verdict.unchecked is not None]
    return Report.of(findings, unchecked, CheckedCounts(installed_variants=len(verdicts)))


def _refusals(
    variant: InstalledVariant,
    document: VariantDocument,
    support: Support,
    unknown: frozenset[str],
) -> Iterator[tuple[Check, str]]:
    """Yield the failed checks: by the machine, then by the versions of other distributions."""
    abi = abi_namespaces(document.providers)
    known_properties = [
        property_ for property_ in variant.properties if property_.namespace not in unknown
    ]
    for check, properties in (
        (
            checks.UNSUPPORTED_HERE,
            [property_ for property_ in known_properties if property_.namespace not in abi],
        ),
        (
            checks.BROKEN_BY_DEPENDENCY,
            [property_ for property_ in known_properties if property_.namespace in abi],
        ),
    ):
        reason = support.refusal(PropertySet(properties))
        if reason is not None:
            yield check, reason
