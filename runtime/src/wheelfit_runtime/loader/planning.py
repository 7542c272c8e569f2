"""Choose the implementation of each group, by pure functions.

An implementation needs properties. Most are capabilities, of which every group may use what the
machine has. Some describe what an implementation shares with the process, as its CUDA major; there
all groups must agree on one value, also with the libraries already loaded. So the groups are looked
at together, before the first of them is imported: most groups served first, then the fewest steps
down from each group's best.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.loader.declarations import Feature
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms import shared_requirements as tables
from wheelfit_runtime.platforms.features import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wheelfit_runtime.loader.declarations import Implementation, Property
    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.hardware_family import SharedRequirement

_DRIVER = Feature("nvidia", "cuda_version_lower_bound")
_PROCESSORS = 100_000
_OTHERS = 200_000
"""An accelerator counts more than a processor; others come after these, by name."""
_LATE = 1_000_000
_MOST_COMBINATIONS = 1024
"""More than all that is known; who declares more gets a plan too, if not the best."""
_MOST_VALUES = 16
_DIGITS = pattern(r"([0-9]+)")

_ROWS = {Feature(*feature): row for row in tables.ROWS for feature in row.features}


class LoadedValue(NamedTuple):
    """One value that the process has already of something of which it has one."""

    dimension: str
    """As ``cuda``, or ``acme :: protocol``."""
    value: str
    """As ``13``."""
    because: str
    """The library that fixed it, as ``libcudart.so.13 is loaded``."""


class Judgement(NamedTuple):
    """The verdict of the machine on one implementation."""

    implementation: Implementation
    reasons: tuple[str, ...] = ()
    """Why it does not fit, one clause each; none: it fits."""
    order: tuple[object, ...] = ()
    """Sorts those of a group that fit, the best first."""
    claims: Mapping[str, tuple[str, ...]] = {}
    """The values of shared dimensions it works with; missing dimensions do not matter."""
    forced: bool = False
    """Whether the user forced it, so that reasons do not count."""
    missed: frozenset[str] = frozenset()
    """Namespaces whose hardware would do, and the driver or the process does not; empty: it fits,
    or the hardware is another one, as is usual where an image serves many machines."""
    failed: bool = False
    """Whether it fits and could not be imported."""

    @property
    def fits(self) -> bool:
        """Whether it may be chosen."""
        return self.forced or not self.reasons


class Plan(NamedTuple):
    """The chosen implementations."""

    chosen: Mapping[str, Judgement]
    """By group; a group of which nothing can be chosen is missing."""
    agreed: Mapping[str, str]


def judge(
    implementation: Implementation,
    detections: Mapping[str, Detection],
    held: Sequence[LoadedValue] = (),
    requirements: Iterable[Feature] = (),
) -> Judgement:
    """Return the verdict of machine and process on an implementation, with its rank.

    :param detections: the detections of the machine, for every namespace that is named.
    :param requirements: features of which a process has one value, by any declaration.
    """
    own = frozenset((*requirements, *implementation.requirements))
    ranks = {item.feature: item.values for item in implementation.ranks}
    reasons: list[str] = []
    places: list[tuple[int, str, int, str, int]] = []
    claims: dict[str, tuple[str, ...]] = {}
    claimed_by: dict[str, str] = {}
    missed: set[str] = set()
    has_hardware = True
    for item in implementation.properties:
        row = _ROWS.get(item.feature)
        namespace = item.feature.namespace
        detection = detections.get(namespace)
        if row is not None:
            claims[row.name] = _claimed(item, row)
            claimed_by[row.name] = namespace
        elif item.feature in own and detection is None:
            claims[str(item.feature)] = item.values
            claimed_by[str(item.feature)] = namespace
        if detection is None:
            # Properties that only describe a build are supported by every machine.
            order = ranks.get(item.feature)
            if order is None and row is None and item.feature not in own:
                reasons.append(f"nothing here knows what {item.feature} is")
                missed.add(namespace)  # no machine is at fault
            elif order is not None and not set(item.values) & set(order):
                reasons.append(f"needs {item}, which is none of the values it declares")
                missed.add(namespace)
            else:
                places.append(_place(item, 0, order or ()))
            continue
        if words := suits(item, detection):
            reasons.append(words)
            missed.add(namespace)
            has_hardware &= _is_of_software(item, detection)
        else:
            names = [feature.name for feature in detection.features]
            number = names.index(item.feature.name)
            places.append(_place(item, number, detection.features[number].values))
    against = _against(claims, held)
    reasons += against.values()
    missed.update(claimed_by[dimension] for dimension in against)
    order_key = (-implementation.priority, *sorted(places), (_LATE,), implementation.name)
    return Judgement(
        implementation,
        tuple(reasons),
        order_key,
        claims,
        missed=frozenset(missed) if has_hardware else frozenset(),
    )


def suits(item: Property, detection: Detection) -> str:
    """Return the reason a property is not supported, one clause; empty when it is.

    :param item: the required property; any of its values is enough.
    """
    supported = next((f for f in detection.features if f.name == item.feature.name), None)
    if supported is None or not supported.values:
        why = detection.warnings[0] if detection.warnings else f"no {item.feature} here"
        return f"{_needs(item)}; {why}"
    if not set(item.values) & set(supported.values):
        return f"{_needs(item)}; here it is {supported.values[0]}"
    for device in detection.devices:
        if device.feature == item.feature.name and not device.values & set(item.values):
            if item.feature == _DRIVER:
                made_for = min(item.values, key=_natural)
                return f"is for CUDA {made_for}, which has no code for {device.device}"
            return f"{_needs(item)}, which {device.device} cannot run"
    return ""


def _is_of_software(item: Property, detection: Detection) -> bool:
    """Return whether a property is unsupported although there is hardware for it.

    The driver is too old or cannot be queried, or one of several devices limits the others.
    """
    if detection.status is Status.FAILED:
        return True
    supported = next((f for f in detection.features if f.name == item.feature.name), None)
    if supported is None or not supported.values:
        return False
    values = set(item.values)
    devices = [each for each in detection.devices if each.feature == item.feature.name]
    if item.feature in _ROWS and not values & set(supported.values):
        return all(values & device.values for device in devices)
    return any(values & device.values for device in devices)


def _needs(item: Property) -> str:
    if item.feature == _DRIVER:
        return f"needs an NVIDIA driver for CUDA {min(item.values, key=_natural)} or newer"
    return f"needs {item}"


def _place(item: Property, number: int, order: Sequence[str]) -> tuple[int, str, int, str, int]:
    namespace = item.feature.namespace
    family = providers.by_namespace(namespace)
    rank = _OTHERS if family is None else family.rank + _PROCESSORS * family.is_processor
    place = min((order.index(value) for value in item.values if value in order), default=0)
    return (rank, namespace, number, item.feature.name, place)


def _claimed(item: Property, row: SharedRequirement) -> tuple[str, ...]:
    # The lowest of several lower bounds is the target of a build.
    values = (min(item.values, key=_natural),) if row.is_bound else item.values
    if row.is_major:
        values = tuple(value.partition(".")[0] for value in values)
    return tuple(dict.fromkeys(values))


def _against(
    claims: Mapping[str, tuple[str, ...]], held: Sequence[LoadedValue]
) -> Mapping[str, str]:
    """Return the conflicts of an implementation with loaded libraries, by dimension."""
    reasons = {}
    for dimension, values in claims.items():
        there = [value for value in held if value.dimension == dimension]
        if there and not any(value.value in values for value in there):
            wanted, has = _called(dimension, values), _called(dimension, (there[0].value,))
            words = f"is for {wanted}, but this process has {has}: {there[0].because}"
            reasons[dimension] = words
    return reasons


def _called(dimension: str, values: Iterable[str]) -> str:
    title = next((row.title for row in tables.ROWS if row.name == dimension), dimension)
    return f"{title} {' or '.join(values)}"


def _natural(value: str) -> tuple[tuple[int, int, str], ...]:
    """Sort as people do: 12.8 before 12.10."""
    parts = [part for part in _DIGITS.split(value) if part not in ("", ".")]
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)


def plan(judged: Iterable[Judgement], held: Sequence[LoadedValue] = (), asked: str = "") -> Plan:
    """Choose for all groups at once.

    For each combination of values that a process could have, every group takes its best; the best
    combination serves the group imported now, then the most groups, then needs the fewest steps
    down, then has the higher values. A forced implementation is always taken, and the other groups
    adapt to it where they can.

    :param judged: the judgements of all installed implementations; incompatible ones are left out.
    :param asked: the group that is imported now; others may never be.
    """
    groups: dict[str, list[Judgement]] = {}
    for judgement in sorted(
        (judgement for judgement in judged if judgement.fits), key=lambda judgement: judgement.order
    ):
        groups.setdefault(judgement.implementation.group, []).append(judgement)
    for offers in groups.values():
        offers.sort(key=lambda judgement: not judgement.forced)
        if offers[0].forced:
            del offers[1:]
    dimensions = _dimensions(groups, held, asked)
    best: tuple[tuple[bool, int, int, int], dict[str, Judgement], tuple[str, ...]] | None = None
    for values in product(*dimensions.values()):
        agreed = dict(zip(dimensions, values, strict=True))
        chosen, steps = _each_best(groups, agreed)
        strays = sum(not _goes_with(judgement, agreed) for judgement in chosen.values())
        score = (asked not in chosen, strays, -len(chosen), steps)
        if best is None or score < best[0]:  # of equals the first: the higher values
            best = (score, chosen, values)
    assert best is not None  # noqa: S101 - there is always the empty combination
    taken = {dimension for judgement in best[1].values() for dimension in judgement.claims}
    agreed = {d: v for d, v in zip(dimensions, best[2], strict=True) if d in taken}
    return Plan(best[1], agreed)


def _dimensions(
    groups: Mapping[str, Sequence[Judgement]], held: Sequence[LoadedValue], asked: str
) -> dict[str, list[str]]:
    """Return the values to try, the higher first, up to a limit."""
    fixed = {value.dimension for value in held}
    # With these values the imported group is served.
    needed = {
        d: values[0]
        for judgement in groups.get(asked, ())[:1]
        for d, values in judgement.claims.items()
    }
    votes: dict[str, dict[str, set[str]]] = {}
    for group, offers in groups.items():
        for judgement in offers:
            for dimension, values in judgement.claims.items():
                if dimension not in fixed:
                    for value in values:
                        votes.setdefault(dimension, {}).setdefault(value, set()).add(group)

    def wanted(dimension: str, value: str) -> tuple[bool, int]:
        return needed.get(dimension) == value, len(votes[dimension][value])

    dimensions = {}
    for dimension in sorted(votes):
        high = sorted(votes[dimension], key=_natural, reverse=True)
        most = sorted(high, key=lambda value: wanted(dimension, value), reverse=True)[:_MOST_VALUES]
        dimensions[dimension] = [value for value in high if value in most]
    while _combinations(dimensions) > _MOST_COMBINATIONS:
        # Values that serve few groups are given up, where there are most of them.
        longest = max(dimensions, key=lambda dimension: len(dimensions[dimension]))
        if len(dimensions[longest]) == 1:
            break
        least = min(reversed(dimensions[longest]), key=lambda value: wanted(longest, value))
        dimensions[longest].remove(least)
    return dimensions


def _combinations(dimensions: Mapping[str, Sequence[str]]) -> int:
    count = 1
    for values in dimensions.values():
        count *= len(values)
    return count


def _each_best(
    groups: Mapping[str, Sequence[Judgement]], agreed: Mapping[str, str]
) -> tuple[dict[str, Judgement], int]:
    chosen: dict[str, Judgement] = {}
    steps = 0
    for group, offers in groups.items():
        for number, judgement in enumerate(offers):
            if judgement.forced or _goes_with(judgement, agreed):
                chosen[group] = judgement
                steps += number
                break
    return chosen, steps


def _goes_with(judgement: Judgement, agreed: Mapping[str, str]) -> bool:
    for dimension, values in judgement.claims.items():  # no `all`: this runs often enough to matter
        if dimension in agreed and agreed[dimension] not in values:
            return False
    return True
