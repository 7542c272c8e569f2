"""The words for properties that are missing, and for those that decided.

The namespaces of hardware have words of their own, which stand with their families. All others get
the generic words; the properties themselves are named in every case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core import abi_dependency
from wheelfit.core.providers import StaticProvider
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.words import (
    THIS_MACHINE,
    AcceleratorWords,
    NamespaceWords,
    ProcessorWords,
    properties_text,
)
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit.core.properties import Feature, PropertySet
    from wheelfit.core.providers import Provider


def short(features: Iterable[tuple[Feature, Iterable[str]]]) -> str:
    """Write features with values in the order given, a namespace only where it changes.

    As ``nvidia :: cuda_version_lower_bound :: 12.9, sm_arch :: 80_real or 90_real``.
    """
    parts: list[str] = []
    namespace = ""
    for feature, values in features:
        text = properties_text(feature, values)
        repeated = feature.namespace == namespace
        parts.append(text.removeprefix(f"{namespace} :: ") if repeated else text)
        namespace = feature.namespace
    return ", ".join(parts)


def missing(
    wanted: Sequence[tuple[Feature, tuple[str, ...]]],
    detection: Detection,
    *,
    machine: str = THIS_MACHINE,
) -> str:
    """Return the reason features of a namespace are missing, without a final full stop.

    >>> from wheelfit.core.properties import Feature
    >>> from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status
    >>> found = Detection("x86_64", (FeatureConfig("level", ("v3", "v2", "v1")),), Status.SUPPORTED)
    >>> missing([(Feature("x86_64", "level"), ("v4",))], found)
    'needs x86-64-v4, this CPU is v3 (x86_64 :: level :: v4)'
    """
    namespace = detection.namespace
    match detection.status:
        case Status.DISABLED:
            reason = detection.warnings[0] if detection.warnings else detection.source
            return f"needs {short(wanted)}; {namespace} is disabled: {reason}"
        case Status.FAILED:
            return f"needs {short(wanted)}; {_failure(detection, machine)}"
        case Status.UNKNOWN:
            return f"needs {short(wanted)}; {detection.source or 'nobody was asked'}"
        case _:
            words = _words(detection, machine)
            if not any(config.values for config in detection.features):
                properties = short(wanted)
                return _with(words.unsupported_namespace(properties), properties)
            return "; ".join(
                _with(words.unsupported_feature(feature, values), properties_text(feature, values))
                for feature, values in wanted
            )


def missing_on_device(feature: Feature, wanted: tuple[str, ...], device: str) -> str:
    """Return the words for one of several devices that lacks a feature of the others (P-88)."""
    needs = _words(Detection(feature.namespace)).requirement(feature, wanted)
    return _with(f"{needs}, which {device} does not meet", properties_text(feature, wanted))


def lacking(
    feature: Feature, wanted: tuple[str, ...], detection: Detection, machine: str = THIS_MACHINE
) -> str:
    """Return the values of a feature that a machine has in place of those needed, in words."""
    return _words(detection, machine).unsupported_feature(feature, wanted)


def requirement(feature: Feature, wanted: tuple[str, ...]) -> str:
    """Return the requirement of a feature for any machine, as ``needs CUDA driver >= 12.8``."""
    return _words(Detection(feature.namespace)).requirement(feature, wanted)


def _with(words: str, properties: str) -> str:
    return words if properties in words else f"{words} ({properties})"


def _failure(detection: Detection, machine: str) -> str:
    """Return how the detection of a namespace failed (P-17)."""
    if detection.warnings:
        return "; ".join(detection.warnings)
    seen = "; ".join(f"{item.source}: {item.value}" for item in detection.evidence[-2:])
    return f"asking {machine} about {detection.namespace} failed: {seen or detection.source}"


def _words(detection: Detection, machine: str = THIS_MACHINE) -> NamespaceWords:
    """Return the words about a namespace: those of its family, or the generic ones."""
    family = providers.by_namespace(detection.namespace)
    if family is None:
        return NamespaceWords(detection, machine)
    usual = ProcessorWords if family.is_processor else AcceleratorWords
    kind: type[NamespaceWords] = getattr(family.module("vocabulary"), "Words", usual)
    needed = family.needed or family.device
    return kind(detection, machine, needed=needed, level_feature=(family.lowest or ("",))[0])


_NEEDS = "needs "


def needs_in_words(properties: PropertySet, providers: Mapping[str, Provider]) -> str:
    """Return the condition of a variant in words, without a final full stop.

    >>> from wheelfit.core.properties import PropertySet
    >>> wanted = PropertySet.from_mapping(
    ...     {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["90_real"]}}
    ... )
    >>> needs_in_words(wanted, {})
    'needs CUDA driver >= 12.8 and a GPU of compute capability 9.0'
    """
    clauses = list(_clauses(properties, providers))
    wishes = [clause.removeprefix(_NEEDS) for clause in clauses if clause.startswith(_NEEDS)]
    others = [clause for clause in clauses if not clause.startswith(_NEEDS)]
    together = [_NEEDS + " and ".join(wishes)] if wishes else []
    return "; ".join((*together, *others)) or "fits every machine"


def _clauses(properties: PropertySet, providers: Mapping[str, Provider]) -> Iterator[str]:
    builds = abi_dependency.abi_namespaces(providers)
    for feature, values in properties.features():
        if _is_met_everywhere(feature, values, providers.get(feature.namespace)):
            continue
        project = abi_dependency.project_of(feature.name) if feature.namespace in builds else None
        if project is None:
            yield requirement(feature, values)
        else:  # P-51
            yield f"{_NEEDS}{project} {listed(abi_dependency.recent_first(values), 'or')}"


def _is_met_everywhere(
    feature: Feature, values: tuple[str, ...], provider: Provider | None
) -> bool:
    """Return whether the package's own list has a value: then no machine is detected (P-11)."""
    if not isinstance(provider, StaticProvider) or provider.optional:
        return False
    listed = (one.values for one in provider.features if one.name == feature.name)
    return any(value in known for known in listed for value in values)
