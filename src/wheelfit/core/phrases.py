"""Descriptions in words of the properties that a variant needs and of those that a machine lacks.

The hardware families have words for their namespaces; other namespaces get generic words. The
properties themselves are named in every case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core import abi_dependency
from wheelfit.core.providers import Provider, StaticProvider
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


def features_text(features: Iterable[tuple[Feature, Iterable[str]]]) -> str:
    """Return features with values in their order, with a namespace only where it changes.

    As ``nvidia :: cuda_version_lower_bound :: 12.9, sm_arch :: 80_real or 90_real``.
    """
    parts: list[str] = []
    namespace = ""
    for feature, values in features:
        text = properties_text(feature, values)
        is_repeated = feature.namespace == namespace
        parts.append(text.removeprefix(f"{namespace} :: ") if is_repeated else text)
        namespace = feature.namespace
    return ", ".join(parts)


def describe_unmet(
    unmet: Sequence[tuple[Feature, tuple[str, ...]]],
    detection: Detection,
    *,
    machine: str = THIS_MACHINE,
) -> str:
    """Return the reason features of a namespace are missing, without a final full stop.

    >>> from wheelfit.core.properties import Feature
    >>> from wheelfit_runtime.platforms.features import Detection, FeatureConfig, Status
    >>> levels = FeatureConfig("level", ("v3", "v2", "v1"))
    >>> detection = Detection("x86_64", (levels,), Status.SUPPORTED)
    >>> describe_unmet([(Feature("x86_64", "level"), ("v4",))], detection)
    'needs x86-64-v4, this CPU is v3 (x86_64 :: level :: v4)'
    """
    namespace = detection.namespace
    match detection.status:
        case Status.DISABLED:
            reason = detection.warnings[0] if detection.warnings else detection.source
            return f"needs {features_text(unmet)}; {namespace} is disabled: {reason}"
        case Status.FAILED:
            return f"needs {features_text(unmet)}; {_failure(detection, machine)}"
        case Status.UNKNOWN:
            return f"needs {features_text(unmet)}; {detection.source or 'no provider answered'}"
        case _:
            words = _words(detection, machine)
            if not any(config.values for config in detection.features):
                properties = features_text(unmet)
                return _with_properties(words.unsupported_namespace(properties), properties)
            return "; ".join(
                _with_properties(
                    words.unsupported_feature(feature, values), properties_text(feature, values)
                )
                for feature, values in unmet
            )


def describe_unmet_on_device(feature: Feature, values: tuple[str, ...], device: str) -> str:
    """Return the reason one of several devices does not meet a feature (P-88)."""
    needs = _words(Detection(feature.namespace)).requirement(feature, values)
    return _with_properties(
        f"{needs}, which {device} does not meet", properties_text(feature, values)
    )


def describe_unmet_feature(
    feature: Feature, values: tuple[str, ...], detection: Detection, machine: str = THIS_MACHINE
) -> str:
    """Return the reason a machine does not meet a feature, without the properties."""
    return _words(detection, machine).unsupported_feature(feature, values)


def describe_requirement(feature: Feature, values: tuple[str, ...]) -> str:
    """Return a feature as a requirement on any machine, such as ``needs CUDA driver >= 12.8``."""
    return _words(Detection(feature.namespace)).requirement(feature, values)


def _with_properties(words: str, properties: str) -> str:
    return words if properties in words else f"{words} ({properties})"


def _failure(detection: Detection, machine: str) -> str:
    """Return how the detection of a namespace failed (P-17)."""
    if detection.warnings:
        return "; ".join(detection.warnings)
    evidence = "; ".join(f"{item.source}: {item.value}" for item in detection.evidence[-2:])
    return f"detection of {detection.namespace} on {machine} failed: {evidence or detection.source}"


def _words(detection: Detection, machine: str = THIS_MACHINE) -> NamespaceWords:
    """Return the words about a namespace: those of its family, or the generic ones."""
    family = providers.by_namespace(detection.namespace)
    if family is None:
        return NamespaceWords(detection, machine)
    default_words = ProcessorWords if family.is_processor else AcceleratorWords
    words_class: type[NamespaceWords] = getattr(family.module("vocabulary"), "Words", default_words)
    device_name = family.required_device or family.device
    level_feature = family.baseline[0] if family.baseline else ""
    return words_class(detection, machine, required_device=device_name, level_feature=level_feature)


_NEEDS = "needs "


def describe_condition(properties: PropertySet, providers: Mapping[str, Provider]) -> str:
    """Return the condition of a variant in words, without a final full stop.

    >>> from wheelfit.core.properties import PropertySet
    >>> properties = PropertySet.from_mapping(
    ...     {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["90_real"]}}
    ... )
    >>> describe_condition(properties, {})
    'needs CUDA driver >= 12.8 and a GPU of compute capability 9.0'
    """
    clauses = list(_clauses(properties, providers))
    needs = [clause.removeprefix(_NEEDS) for clause in clauses if clause.startswith(_NEEDS)]
    others = [clause for clause in clauses if not clause.startswith(_NEEDS)]
    joined = [_NEEDS + " and ".join(needs)] if needs else []
    return "; ".join((*joined, *others)) or "fits every machine"


def _clauses(properties: PropertySet, providers: Mapping[str, Provider]) -> Iterator[str]:
    abi_namespaces = abi_dependency.abi_namespaces(providers)
    for feature, values in properties.features():
        if _is_met_everywhere(feature, values, providers.get(feature.namespace)):
            continue
        project = (
            abi_dependency.project_of(feature.name) if feature.namespace in abi_namespaces else None
        )
        if project is None:
            yield describe_requirement(feature, values)
        else:  # P-51
            yield f"{_NEEDS}{project} {listed(abi_dependency.recent_first(values), 'or')}"


def _is_met_everywhere(
    feature: Feature, values: tuple[str, ...], provider: Provider | None
) -> bool:
    """Return whether the package's static list supports a value, on every machine (P-11)."""
    if not isinstance(provider, StaticProvider) or provider.optional:
        return False
    supported = {
        value
        for config in provider.features
        if config.name == feature.name
        for value in config.values
    }
    return not supported.isdisjoint(values)
