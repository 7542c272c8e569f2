"""Check whether installed variants still fit the machine and each other (F-96, P-56)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedFile, Count, Report, Unchecked
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

    Ask = Callable[[VariantDocument, frozenset[str], KnownVersions], Support]


@dataclass(frozen=True, slots=True)
class InstalledVariant:
    """An installed variant."""

    where: str
    """Its ``.dist-info`` folder."""
    name: NormalizedName
    version: Version
    label: Label
    properties: PropertySet
    document: VariantDocument | None
    """Its ``variant.json``; None if that is missing or cannot be understood."""

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.label})"


_LOOKED = (Status.SUPPORTED, Status.NOTHING, Status.DISABLED)


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """The verdict on one installed variant."""

    variant: InstalledVariant
    refusals: tuple[tuple[Check, str], ...] = ()
    """Broken rules, each with its reason; empty: none is known."""
    unchecked: Unchecked | None = None

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
    ask: Ask,
) -> Iterator[FitVerdict]:
    """Yield verdicts on installed variants by the machine and the other distributions.

    :param ask: returns the supported values from a document, the namespaces of interest and the
        known versions; as `wheelfit.core.property_support.support_for`.
    """
    known = KnownVersions({name: KnownVersion(version) for name, version in versions.items()})
    for variant in variants:
        if variant.label == NULL:
            yield FitVerdict(variant)  # which needs nothing
            continue
        if variant.document is None or variant.label not in variant.document.variants:
            reason = f"the variant.json of {variant} is missing or cannot be understood"
            yield FitVerdict(variant, (), Unchecked(variant.where, "invalid-document", reason))
            continue
        support = ask(variant.document, namespaces_used([variant.properties]), known)
        unknown = [
            namespace
            for namespace, detection in support.detections.items()
            if detection.status not in _LOOKED
        ]
        unchecked = None
        if unknown:
            reason = (
                f"{variant} needs {', '.join(unknown)}, for which no provider is available here"
            )
            hint = "`wheelfit probe` says why"
            unchecked = Unchecked(variant.where, "unknown-namespace", reason, hint)
        refusals = _refusals(variant, variant.document, support, frozenset(unknown))
        yield FitVerdict(variant, tuple(refusals), unchecked)


def report_on(judged: Sequence[FitVerdict]) -> Report:
    """Return the report of verdicts on installed variants."""
    findings = [
        CheckedFile(one.variant.where).found(check, f"{one.variant}: {reason}")
        for one in judged
        for check, reason in one.refusals
    ]
    unchecked = [one.unchecked for one in judged if one.unchecked is not None]
    return Report.of(findings, unchecked, Count(installed=len(judged)))


def _refusals(
    variant: InstalledVariant,
    document: VariantDocument,
    support: Support,
    unknown: frozenset[str],
) -> Iterator[tuple[Check, str]]:
    abi = abi_namespaces(document.providers)
    asked = [item for item in variant.properties if item.namespace not in unknown]
    for check, properties in (
        (checks.UNSUPPORTED_HERE, [item for item in asked if item.namespace not in abi]),
        (checks.BROKEN_BY_DEPENDENCY, [item for item in asked if item.namespace in abi]),
    ):
        reason = support.refusal(PropertySet(properties))
        if reason is not None:
            yield check, reason
