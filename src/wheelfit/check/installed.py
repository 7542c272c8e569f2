"""Check whether installed variants still fit the machine and each other (F-96, P-56)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.check import checks
from wheelfit.check.findings import Count, Place, Report, Unchecked
from wheelfit.core.abi_dependency import KnownVersion, KnownVersions, abi_namespaces
from wheelfit.core.labels import NULL
from wheelfit.core.properties import PropertySet
from wheelfit.core.support import namespaces_used
from wheelfit.platforms.features import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.check.findings import Check, Finding
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.support import Support

    Ask = Callable[[VariantDocument, frozenset[str], KnownVersions], Support]

__all__ = ["InstalledVariant", "check_installed"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class InstalledVariant:
    """Hold what matters here of an installed variant."""

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


def check_installed(
    variants: Iterable[InstalledVariant],
    versions: Mapping[NormalizedName, Version],
    ask: Ask,
) -> Report:
    """Check installed variants against the machine and against what else is installed.

    :param variants: what is installed with a label.
    :param versions: everything that is installed.
    :param ask: from a document, the namespaces of interest and the versions that are known
        to what is supported; as `wheelfit.core.support.support_for`.
    """
    known = KnownVersions({name: KnownVersion(version) for name, version in versions.items()})
    findings: list[Finding] = []
    unchecked: list[Unchecked] = []
    count = 0
    for variant in variants:
        count += 1
        if variant.label == NULL:
            continue  # which needs nothing
        if variant.document is None:
            reason = f"the variant.json of {variant} is missing or cannot be understood"
            unchecked.append(Unchecked(variant.where, "invalid-document", reason))
            continue
        support = ask(variant.document, namespaces_used([variant.properties]), known)
        unknown = [
            namespace
            for namespace, detection in support.detections.items()
            if detection.status not in _LOOKED
        ]
        if unknown:
            reason = f"{variant} needs {', '.join(unknown)}, which nobody can be asked about here"
            unchecked.append(
                Unchecked(variant.where, "unknown-namespace", reason, "wheelfit probe says why")
            )
        findings += _refusals(variant, variant.document, support, frozenset(unknown))
    return Report.of(findings, unchecked, Count(installed=count))


def _refusals(
    variant: InstalledVariant,
    document: VariantDocument,
    support: Support,
    unknown: frozenset[str],
) -> Iterator[Finding]:
    abi = abi_namespaces(document.providers)

    def refused(check: Check, properties: PropertySet) -> Iterator[Finding]:
        reason = support.refusal(properties)
        if reason is not None:
            yield Place(variant.where).found(check, f"{variant}: {reason}")

    asked = [item for item in variant.properties if item.namespace not in unknown]
    yield from refused(
        checks.UNSUPPORTED_HERE, PropertySet(item for item in asked if item.namespace not in abi)
    )
    yield from refused(
        checks.BROKEN_BY_DEPENDENCY, PropertySet(item for item in asked if item.namespace in abi)
    )
