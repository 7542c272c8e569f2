"""Verdicts on whether installed variants still fit the machine and each other (F-96, P-56)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.labels import NULL
from wheelfit.core.properties import PropertySet
from wheelfit.installation.installed import Installed, by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.abi_dependency import KnownVersions
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support

    DetectSupport = Callable[[VariantDocument, frozenset[str], KnownVersions], Support]


class FitVerdict(Struct, frozen=True):
    """The verdict on one installed variant."""

    variant: Installed
    machine_refusal: str = ""
    """The reason why the machine does not support it; empty if it does."""
    dependency_refusal: str = ""
    """The reason why installed packages do not fit it; empty if they do."""
    unchecked: str = ""
    """The reason why its support could not be checked; empty if it was."""

    @property
    def fits(self) -> bool | None:
        """Whether it still fits; None if unknown."""
        if self.machine_refusal or self.dependency_refusal:
            return False
        return None if self.unchecked else True

    @property
    def reason(self) -> str:
        """The reason why it does not fit, or why that is unknown; empty if it fits."""
        refusals = filter(None, (self.machine_refusal, self.dependency_refusal))
        return "; ".join(refusals) or self.unchecked


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
    from wheelfit.core.abi_dependency import abi_namespaces
    from wheelfit.core.property_support import namespaces_used
    from wheelfit_runtime.platforms.features import Status

    if variant.label == NULL:
        return FitVerdict(variant)  # it fits every machine
    document = variant.document
    if document is None or variant.label not in document.variants:
        reason = f"the variant.json of {variant} is missing or invalid"
        return FitVerdict(variant, unchecked=reason)
    support = detect_support(document, namespaces_used([variant.properties]), known)
    detected = (Status.SUPPORTED, Status.NOTHING, Status.DISABLED)
    unknown = [
        namespace
        for namespace, detection in support.detections.items()
        if detection.status not in detected
    ]
    unchecked = ""
    if unknown:
        unchecked = f"{variant} needs {', '.join(unknown)}, for which no provider is available here"
    abi = abi_namespaces(document.providers)
    checked = [item for item in variant.properties if item.namespace not in unknown]
    of_machine = PropertySet(item for item in checked if item.namespace not in abi)
    of_packages = PropertySet(item for item in checked if item.namespace in abi)
    return FitVerdict(
        variant,
        support.refusal(of_machine) or "",
        support.refusal(of_packages) or "",
        unchecked,
    )
