"""The choice of the implementation of each group, by pure functions.

An implementation needs properties. Most are capabilities of the machine, which each group uses
independently. Some, such as the CUDA major, are shared in the process: all groups, and the
libraries already loaded, must agree on one value. So all groups are planned together before the
first import: the best plan has an implementation for the most groups, and then the best ones for
each group.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.loader.declarations import Feature, Implementation, Property
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms import shared_requirements as tables
from wheelfit_runtime.platforms.features import Detection, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit_runtime.platforms.hardware_family import SharedRequirement

_CUDA_LOWER_BOUND = Feature("nvidia", "cuda_version_lower_bound")
_PROCESSOR_OFFSET = 100_000
_OTHER_OFFSET = 200_000
"""Added to ranks: accelerators come first, then processors, then other namespaces by name."""
_AFTER_ALL_RANKS = 1_000_000
"""Ends the ranks in a key, so that of two keys that begin alike, the one with more ranks comes
first: the implementation that requires more properties."""
_MAX_COMBINATIONS = 1024
"""Enough for all known dimensions; with more combinations the best plan may be missed."""
_DIGITS = pattern(r"([0-9]+)")

_SHARED_REQUIREMENTS = {Feature(*feature): row for row in tables.ROWS for feature in row.features}


class LoadedValue(NamedTuple):
    """The value of a shared dimension that the process has already."""

    dimension: str
    """As ``cuda``, or ``acme :: protocol``."""
    value: str
    """As ``13``."""
    reason: str
    """The cause, such as ``libcudart.so.13 is loaded``."""


class Judgement(NamedTuple):
    """The verdict of the machine on one implementation."""

    implementation: Implementation
    reasons: tuple[str, ...] = ()
    """The reasons it is incompatible, one clause each; empty: it is compatible."""
    sort_key: tuple[object, ...] = ()
    """The sort key among the implementations of a group, the best first."""
    claims: Mapping[str, tuple[str, ...]] = {}
    """The values of shared dimensions it works with; other dimensions do not matter."""
    is_forced: bool = False
    """Whether the user forced it, so that reasons do not count."""
    suitable_hardware: frozenset[str] = frozenset()
    """For an incompatible implementation: the namespaces whose hardware it could use if driver or
    process did not prevent it; empty if it is for other hardware.
    """
    has_failed: bool = False
    """Whether it could not be imported."""

    @property
    def fits(self) -> bool:
        """Whether it may be chosen."""
        return self.is_forced or not self.reasons


class Plan(NamedTuple):
    """The chosen implementations."""

    chosen: Mapping[str, Judgement]
    """By group; groups without a compatible implementation are missing."""
    agreed: Mapping[str, str]
    """The common values of shared dimensions."""


def judge(
    implementation: Implementation,
    detections: Mapping[str, Detection],
    loaded: Sequence[LoadedValue] = (),
    single_valued_features: Iterable[Feature] = (),
) -> Judgement:
    """Return the verdict of machine and process on an implementation, with its rank.

    :param loaded: the values of shared dimensions that the process has already.
    :param single_valued_features: features that some declaration limits to one value in a process.
    """
    single_valued = frozenset((*single_valued_features, *implementation.single_valued_features))
    ranked = {property_.feature: property_.values for property_ in implementation.ranked_features}
    reasons: list[str] = []
    preferences: list[tuple[int, str, int, str, int]] = []
    claims: dict[str, tuple[str, ...]] = {}
    claimed_by: dict[str, str] = {}
    unsupported_namespaces: set[str] = set()
    has_hardware = True  # for all unsupported properties
    for property_ in implementation.properties:
        row = _SHARED_REQUIREMENTS.get(property_.feature)
        namespace = property_.feature.namespace
        detection = detections.get(namespace)
        if row is not None:
            claims[row.name] = _claimed(property_, row)
            claimed_by[row.name] = namespace
        elif property_.feature in single_valued and detection is None:
            claims[str(property_.feature)] = property_.values
            claimed_by[str(property_.feature)] = namespace
        if detection is None:
            # Properties that only describe a build are supported by every machine.
            declared_values = ranked.get(property_.feature)
            is_descriptive = (
                declared_values is not None or row is not None or property_.feature in single_valued
            )
            if not is_descriptive:
                reasons.append(f"no provider detects {property_.feature}")
                unsupported_namespaces.add(namespace)  # not the fault of the hardware
            elif declared_values is not None and not set(property_.values) & set(declared_values):
                reasons.append(f"needs {property_}, which is none of the values it declares")
                unsupported_namespaces.add(namespace)
            else:
                preferences.append(_preference(property_, 0, declared_values or ()))
            continue
        if reason := why_unsupported(property_, detection):
            reasons.append(reason)
            unsupported_namespaces.add(namespace)
            has_hardware &= _has_hardware_for(property_, detection)
        else:
            names = [feature.name for feature in detection.features]
            index = names.index(property_.feature.name)
            preferences.append(_preference(property_, index, detection.features[index].values))
    conflicts = _conflicts(claims, loaded)
    reasons += conflicts.values()
    unsupported_namespaces.update(claimed_by[dimension] for dimension in conflicts)
    sort_key = (
        -implementation.priority,
        *sorted(preferences),
        (_AFTER_ALL_RANKS,),
        implementation.name,
    )
    return Judgement(
        implementation,
        tuple(reasons),
        sort_key,
        claims,
        suitable_hardware=frozenset(unsupported_namespaces if has_hardware else ()),
    )


def why_unsupported(property_: Property, detection: Detection) -> str:
    """Return the reason a property is not supported, one clause; empty if it is.

    :param property_: the required property; any of its values is enough.
    """
    supported = detection.values_of(property_.feature.name)
    if not supported:
        reason = detection.warnings[0] if detection.warnings else f"no {property_.feature} here"
        return f"{_needs(property_)}; {reason}"
    if not set(property_.values) & set(supported):
        return f"{_needs(property_)}; here it is {supported[0]}"
    for device in detection.devices:
        if device.feature == property_.feature.name and not device.values & set(property_.values):
            if property_.feature == _CUDA_LOWER_BOUND:
                made_for = min(property_.values, key=_natural_key)
                return f"is for CUDA {made_for}, which has no code for {device.device}"
            return f"{_needs(property_)}, which {device.device} cannot run"
    return ""


def _has_hardware_for(property_: Property, detection: Detection) -> bool:
    """Return whether a property is unsupported although there is hardware for it.

    Then the driver is too old or cannot be queried, or one of several devices limits the others.
    """
    if detection.status is Status.FAILED:
        return True
    supported = detection.values_of(property_.feature.name)
    if not supported:
        return False
    values = set(property_.values)
    devices = [device for device in detection.devices if device.feature == property_.feature.name]
    if property_.feature in _SHARED_REQUIREMENTS and not values & set(supported):
        # The driver is too old. It is the only cause if every device could run the build.
        return all(values & device.values for device in devices)
    # Otherwise one of several devices may limit the others.
    return any(values & device.values for device in devices)


def _needs(property_: Property) -> str:
    if property_.feature == _CUDA_LOWER_BOUND:
        return f"needs an NVIDIA driver for CUDA {min(property_.values, key=_natural_key)} or newer"
    return f"needs {property_}"


def _preference(
    property_: Property, feature_index: int, supported_values: Sequence[str]
) -> tuple[int, str, int, str, int]:
    """Return the sort key of a property among the supported ones, the best first."""
    namespace = property_.feature.namespace
    family = providers.by_namespace(namespace)
    rank = (
        _OTHER_OFFSET if family is None else family.rank + _PROCESSOR_OFFSET * family.is_processor
    )
    values = [value for value in property_.values if value in supported_values]
    value_index = min(map(supported_values.index, values), default=0)
    return (rank, namespace, feature_index, property_.feature.name, value_index)


def _claimed(property_: Property, row: SharedRequirement) -> tuple[str, ...]:
    """Return the values of a shared dimension that a property requires."""
    # The lowest of several lower bounds is the target of a build.
    values = (min(property_.values, key=_natural_key),) if row.is_bound else property_.values
    if row.is_major:
        values = tuple(value.partition(".")[0] for value in values)
    return tuple(dict.fromkeys(values))


def _conflicts(
    claims: Mapping[str, tuple[str, ...]], loaded: Sequence[LoadedValue]
) -> Mapping[str, str]:
    """Return the conflicts of an implementation with loaded libraries, by dimension."""
    reasons = {}
    for dimension, values in claims.items():
        loaded_values = [value for value in loaded if value.dimension == dimension]
        if loaded_values and not any(value.value in values for value in loaded_values):
            first = loaded_values[0]
            title = _with_title(dimension, values)
            loaded_title = _with_title(dimension, (first.value,))
            reasons[dimension] = (
                f"is for {title}, but this process has {loaded_title}: {first.reason}"
            )
    return reasons


def _with_title(dimension: str, values: Iterable[str]) -> str:
    title = next((row.title for row in tables.ROWS if row.name == dimension), dimension)
    return f"{title} {' or '.join(values)}"


def _natural_key(value: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key by which 12.8 comes before 12.10."""
    parts = [part for part in _DIGITS.split(value) if part not in ("", ".")]
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)


def plan(
    judgements: Iterable[Judgement], loaded: Sequence[LoadedValue] = (), imported_group: str = ""
) -> Plan:
    """Choose implementations for all groups together.

    For each combination of values of shared dimensions, every group gets its best implementation.
    The best combination, by decreasing importance:

    - serves the group imported now;
    - agrees with the most forced implementations, which are chosen in any case;
    - serves the most groups;
    - has the best implementations in their groups;
    - has the highest values.

    :param judgements: of all installed implementations; incompatible ones are ignored.
    :param loaded: the values of shared dimensions that the process has already.
    :param imported_group: the group that is imported now; others may never be.
    """
    groups: dict[str, list[Judgement]] = {}
    for judgement in sorted(
        (judgement for judgement in judgements if judgement.fits),
        key=lambda judgement: judgement.sort_key,
    ):
        groups.setdefault(judgement.implementation.group, []).append(judgement)
    for candidates in groups.values():
        candidates.sort(key=lambda judgement: not judgement.is_forced)
        if candidates[0].is_forced:
            del candidates[1:]
    dimensions = _dimensions(groups, loaded, imported_group)
    plans = (
        _choose_best(groups, dict(zip(dimensions, values, strict=True)))
        for values in product(*dimensions.values())
    )
    # Of equally good plans `min` returns the first, which has the higher values.
    best = min(plans, key=lambda scored: scored.score(imported_group))
    used_dimensions = {
        dimension for judgement in best.chosen.values() for dimension in judgement.claims
    }
    agreed = {
        dimension: value for dimension, value in best.agreed.items() if dimension in used_dimensions
    }
    return Plan(best.chosen, agreed)


class _ScoredPlan(NamedTuple):
    """The best implementations for one combination of values."""

    chosen: Mapping[str, Judgement]
    agreed: Mapping[str, str]
    rank_sum: int
    """The sum of the ranks of the chosen implementations in their groups."""

    def score(self, imported_group: str) -> tuple[bool, int, int, int]:
        """Return the sort key of the plan, the best first."""
        mismatches = sum(not _agrees(judgement, self.agreed) for judgement in self.chosen.values())
        return imported_group not in self.chosen, mismatches, -len(self.chosen), self.rank_sum


def _dimensions(
    groups: Mapping[str, Sequence[Judgement]], loaded: Sequence[LoadedValue], imported_group: str
) -> dict[str, list[str]]:
    """Return the values of each shared dimension to try, the higher first, up to a limit."""
    fixed = {value.dimension for value in loaded}
    # With these values the imported group is served.
    needed = {
        dimension: values[0]
        for judgement in groups.get(imported_group, ())[:1]
        for dimension, values in judgement.claims.items()
    }
    served_groups: dict[str, dict[str, set[str]]] = {}
    for group, candidates in groups.items():
        for judgement in candidates:
            for dimension, values in judgement.claims.items():
                if dimension not in fixed:
                    for value in values:
                        served_groups.setdefault(dimension, {}).setdefault(value, set()).add(group)

    def score(dimension: str, value: str) -> tuple[bool, int]:
        return needed.get(dimension) == value, len(served_groups[dimension][value])

    dimensions = {
        dimension: sorted(served_groups[dimension], key=_natural_key, reverse=True)
        for dimension in sorted(served_groups)
    }
    while prod(map(len, dimensions.values())) > _MAX_COMBINATIONS:
        # Of the longest list, drop the value that serves the fewest groups.
        longest = max(dimensions, key=lambda dimension: len(dimensions[dimension]))
        least = min(reversed(dimensions[longest]), key=lambda value: score(longest, value))
        dimensions[longest].remove(least)
    return dimensions


def _choose_best(
    groups: Mapping[str, Sequence[Judgement]], agreed: Mapping[str, str]
) -> _ScoredPlan:
    chosen: dict[str, Judgement] = {}
    rank_sum = 0
    for group, candidates in groups.items():
        for number, judgement in enumerate(candidates):
            if judgement.is_forced or _agrees(judgement, agreed):
                chosen[group] = judgement
                rank_sum += number
                break
    return _ScoredPlan(chosen, agreed, rank_sum)


def _agrees(judgement: Judgement, agreed: Mapping[str, str]) -> bool:
    for dimension, values in judgement.claims.items():  # no `all`: this runs often enough to matter
        if dimension in agreed and agreed[dimension] not in values:
            return False
    return True
