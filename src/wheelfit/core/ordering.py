"""The order of a release's variants, with the user's preferences (F-66, F-69, F-91).

For each feature of a variant the best supported value is compared. The *key* of the feature is the
position of its namespace, of the feature and of this value in their lists. Variants are compared by
their keys, one after another; if all are equal, the variant with more keys comes first.
"""

from __future__ import annotations

import sys
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import force_setattr

from wheelfit.core.properties import (
    Feature,
    Property,
    PropertySet,
    parse_feature,
    parse_namespace,
    parse_property,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.property_support import Support
    from wheelfit_runtime.platforms.features import DeviceValues

Choice: TypeAlias = str | Feature | Property
"""The object of a preference: a namespace, a feature or a property."""

FeatureKey: TypeAlias = tuple[int, int, int]
"""Place of namespace, feature and best value in their lists, from 0 (F-66)."""

# F-66: if one list of keys is a prefix of another, the longer one comes first.
_END = (sys.maxsize, 0, 0)


def parse_preference(text: str) -> Choice:
    """Read ``ns``, ``ns :: feature`` or ``ns :: feature :: value`` (F-5, F-91).

    :raises UserError: ``invalid-property``; the text is none of the three.
    """
    match text.count("::"):
        case 0:
            return parse_namespace(text)
        case 1:
            return parse_feature(text)
        case _:
            return parse_property(text)


class Preferences(Struct, frozen=True):
    """The user's preferences among compatible variants (F-91).

    Nothing here makes an incompatible variant compatible.
    """

    prefer: tuple[Choice, ...] = ()
    """Most important first. A namespace comes before the other namespaces, a feature before the
    others of its namespace, a value before the others of its feature (F-69).
    """
    require: tuple[Choice, ...] = ()
    """The properties that a variant must have, all of them; a plain wheel has none."""
    forbid: tuple[Choice, ...] = ()
    """The properties a variant must not need. A forbidden value is treated as unsupported, but a
    variant with another supported value of the feature may be chosen.
    """
    labels: Mapping[str, Label] = field(default_factory=dict)
    """The only label that may be chosen, by normalised project name."""
    variants: bool = True
    """Whether variant wheels may be chosen at all."""
    origins: Mapping[Choice, str] = field(default_factory=dict)
    """The shorthand option of each preference that comes from one. These apply to all dependencies,
    so it is no error if no project meets them.
    """

    def __post_init__(self) -> None:
        force_setattr(self, "labels", MappingProxyType(dict(self.labels)))
        force_setattr(self, "origins", MappingProxyType(dict(self.origins)))

    def objection(self, properties: PropertySet, support: Support) -> str | None:
        """Return the reason why a compatible variant does not meet the preferences, or None."""
        for choice in self.require:
            if not _contains(properties, choice):
                return (
                    f"{choice} is required{self._origin(choice)}, and this wheel does not have it"
                )
        return self._forbidden(properties, support)

    def unmet(self, present: Iterable[PropertySet]) -> Iterator[Choice]:
        """Yield required properties that no available build has."""
        sets = tuple(present)
        for choice in self.require:
            if not any(_contains(properties, choice) for properties in sets):
                yield choice

    def unmet_user_requirements(self, present: Iterable[PropertySet]) -> Iterator[Choice]:
        """Yield unmet requirements that the user stated, not through a shorthand."""
        return (choice for choice in self.unmet(present) if choice not in self.origins)

    def _forbidden(self, properties: PropertySet, support: Support) -> str | None:
        values: dict[Feature, set[str]] = {}
        for choice in self.forbid:
            if isinstance(choice, Property):
                values.setdefault(Feature(choice.namespace, choice.feature), set()).add(
                    choice.value
                )
            elif _contains(properties, choice):
                return f"{choice} is forbidden{self._origin(choice)}"
        for feature, declared_values in properties.features():
            if feature not in values:
                continue
            # F-91: another value must be supported, on every device too (P-88).
            allowed = set(declared_values) - values[feature]
            devices = support.devices(feature.namespace, feature.name)
            value_sets: list[frozenset[str]] = [support.values(feature.namespace, feature.name)]
            value_sets += [device.values for device in devices]
            if any(supported.isdisjoint(allowed) for supported in value_sets):
                used = sorted(values[feature].intersection(declared_values))
                origins = (
                    self._origin(Property(feature.namespace, feature.name, value)) for value in used
                )
                return f"{feature} :: {', '.join(used)} is forbidden{next(origins, '')}"
        return None

    def _origin(self, choice: Choice) -> str:
        """Return the shorthand behind a preference, in parentheses; empty if there is none."""
        return f" ({self.origins[choice]})" if choice in self.origins else ""


def _contains(properties: PropertySet, choice: Choice) -> bool:
    if isinstance(choice, Property):
        return choice in properties
    if isinstance(choice, Feature):
        return bool(properties.values(choice.namespace, choice.name))
    return properties.uses(choice)


class RankedVariant(Struct, frozen=True):
    """A variant that may be chosen."""

    label: Label
    properties: PropertySet
    key: tuple[FeatureKey, ...]
    """Ascending; empty for a variant without properties (F-66, F-67)."""

    @property
    def sort_key(self) -> tuple[tuple[FeatureKey, ...], str]:
        """The key to sort variants of one `Ranking` by, best first (F-66)."""
        return (*self.key, _END), self.label


class _FeatureKeys:
    """The keys of one feature, cached, since many labels of a release have the same values.

    :param devices: the devices, each of which must support a value (P-88).
    """

    __slots__ = ("_devices", "_keys_of", "keys")

    def __init__(self, keys: dict[str, FeatureKey], devices: tuple[DeviceValues, ...] = ()) -> None:
        self.keys = keys
        self._devices = devices
        self._keys_of: dict[tuple[str, ...], FeatureKey | None] = {}

    def key(self, declared_values: tuple[str, ...]) -> FeatureKey | None:
        """Return the key of the best value; None if no value is supported on all devices."""
        try:
            return self._keys_of[declared_values]
        except KeyError:
            key = self._keys_of[declared_values] = self._find(declared_values)
            return key

    def _find(self, declared_values: tuple[str, ...]) -> FeatureKey | None:
        supported = [value for value in declared_values if value in self.keys]
        if any(device.values.isdisjoint(supported) for device in self._devices):  # P-88
            return None
        return min((self.keys[value] for value in supported), default=None)  # F-28, F-66


_NO_FEATURES: dict[str, _FeatureKeys] = {}


class Ranking:
    """The sort keys of property sets, for one document, target and user.

    The lists are combined once, into tables, so that ranking many labels is fast.
    """

    def __init__(
        self, document: VariantDocument, support: Support, preferences: Preferences
    ) -> None:
        self._document = document
        self._support = support
        self._prefer = preferences.prefer
        self._forbidden = frozenset(preferences.forbid)
        self._required = preferences.require
        preferred = (choice for choice in self._prefer if isinstance(choice, str))
        # A namespace that the document does not rank counts least (F-21 forbids it).
        namespaces = _merged(preferred, document.priorities, sorted(support.detections))
        self._features_by_namespace = {
            namespace: self._feature_keys(namespace, index)
            for index, namespace in enumerate(namespaces)
            if namespace in support.detections and namespace not in self._forbidden
        }
        self._properties = {
            key: Property(namespace, name, value)
            for namespace, features in self._features_by_namespace.items()
            for name, entry in features.items()
            for value, key in entry.keys.items()
        }

    def _feature_keys(self, namespace: str, index: int) -> dict[str, _FeatureKeys]:
        supported_values: dict[str, tuple[str, ...]] = {}
        for config in self._support.detections[namespace].features:
            supported_values.setdefault(config.name, config.values)
        names = _merged(
            (
                choice.name
                for choice in self._prefer
                if isinstance(choice, Feature) and choice.namespace == namespace
            ),
            self._document.feature_priorities.get(namespace, ()),  # F-49
            supported_values,
        )
        # What is preferred but not supported is ignored (F-69).
        features = [Feature(namespace, name) for name in names if name in supported_values]
        return {
            feature.name: _FeatureKeys(
                self._value_keys(feature, (index, number), supported_values[feature.name]),
                self._support.devices(namespace, feature.name),
            )
            for number, feature in enumerate(features)
            if feature not in self._forbidden
        }

    def _value_keys(
        self, feature: Feature, position: tuple[int, int], listed: tuple[str, ...]
    ) -> dict[str, FeatureKey]:
        values = _merged(
            (
                choice.value
                for choice in self._prefer
                if isinstance(choice, Property)
                and (choice.namespace, choice.feature) == (feature.namespace, feature.name)
            ),
            self._document.value_priorities.get(feature, ()),  # F-49
            listed,
        )
        supported = set(listed)
        forbidden = {
            choice.value
            for choice in self._forbidden
            if isinstance(choice, Property)
            and (choice.namespace, choice.feature) == (feature.namespace, feature.name)
        }
        kept = (value for value in values if value in supported)
        return {
            value: (*position, index) for index, value in enumerate(kept) if value not in forbidden
        }

    def key(self, properties: PropertySet) -> tuple[FeatureKey, ...] | None:
        """Return the keys of a property set; None if it may not be chosen."""
        if self._required and not all(_contains(properties, choice) for choice in self._required):
            return None
        keys: list[FeatureKey] = []
        entries = self._features_by_namespace
        for feature, declared_values in properties.features():
            entry = entries.get(feature.namespace, _NO_FEATURES).get(feature.name)
            key = entry.key(declared_values) if entry is not None else None
            if key is None:
                return None  # F-28
            keys.append(key)
        keys.sort()
        return tuple(keys)

    def best_properties(self, key: Iterable[FeatureKey]) -> tuple[Property, ...]:
        """Return the best property of each feature, most important first."""
        return tuple(self._properties[feature_key] for feature_key in key)

    def rank(self, label: Label, properties: PropertySet) -> RankedVariant | None:
        """Return a variant with its keys, or None when it may not be chosen."""
        key = self.key(properties)
        return None if key is None else RankedVariant(label, properties, key)


def _merged(*lists: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(lists)))


def order_labels(
    document: VariantDocument,
    support: Support,
    preferences: Preferences = Preferences(),
) -> tuple[RankedVariant, ...]:
    """Return the labels of a release that may be chosen, best first (F-28, F-66, F-91)."""
    ranking = Ranking(document, support, preferences)
    ranked = (ranking.rank(label, properties) for label, properties in document.variants.items())
    return tuple(
        sorted((variant for variant in ranked if variant is not None), key=attrgetter("sort_key"))
    )
