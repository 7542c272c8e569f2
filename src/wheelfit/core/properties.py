"""Properties: the requirements of a variant, as values.

A *property* is ``namespace :: feature :: value``; a *feature* is the first two parts
(F-1). A `PropertySet` is all properties of one label, in canonical order. A name
or value that breaks F-2 raises a `UserError` with the code ``invalid-property``.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from wheelfit_runtime.errors import UserError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# F-2. Only ``fullmatch`` is used, so that a trailing newline is not accepted.
_NAME = pattern(r"[a-z0-9_]+")
_VALUE = pattern(r"[a-z0-9_.]+")


def is_name(text: str) -> bool:
    """Return whether a text may be a namespace or the name of a feature (F-2)."""
    return _NAME.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Return whether a text may be the value of a property (F-2)."""
    return _VALUE.fullmatch(text) is not None


class _FeatureParts(NamedTuple):
    namespace: str
    """As ``nvidia``."""
    name: str
    """Name within the namespace, such as ``sm_arch``."""


class Feature(_FeatureParts):
    """A feature: ``namespace :: feature`` (F-1)."""

    __slots__ = ()

    def __new__(cls, namespace: str, name: str) -> Self:
        """Return the feature of checked parts (F-2)."""
        _check_name("namespace", namespace)
        _check_name("feature", name)
        return super().__new__(cls, namespace, name)

    def __str__(self) -> str:
        return f"{self.namespace} :: {self.name}"

    def to_json(self) -> str:
        """Return the text, for JSON."""
        return str(self)


class _PropertyParts(NamedTuple):
    namespace: str
    feature: str
    value: str
    """As ``90_real``."""


class Property(_PropertyParts):
    """A property: ``namespace :: feature :: value`` (F-1); sorts by F-141."""

    __slots__ = ()

    def __new__(cls, namespace: str, feature: str, value: str) -> Self:
        """Return the property of checked parts (F-2)."""
        _check_name("namespace", namespace)
        _check_name("feature", feature)
        _check_value(value)
        return super().__new__(cls, namespace, feature, value)

    def __str__(self) -> str:
        return f"{self.namespace} :: {self.feature} :: {self.value}"

    def to_json(self) -> str:
        """Return the text, for JSON."""
        return str(self)


def parse_namespace(text: str) -> str:
    """Read a namespace; blanks around it are ignored."""
    (namespace,) = _split(text, 1, "a namespace")
    _check_name("namespace", namespace)
    return namespace


def parse_feature(text: str) -> Feature:
    """Read a feature; blanks around ``::`` are ignored (F-5)."""
    namespace, name = _split(text, 2, "a feature")
    return Feature(namespace, name)


def parse_property(text: str) -> Property:
    """Read a property; blanks around ``::`` are ignored (F-5)."""
    namespace, feature, value = _split(text, 3, "a property")
    return Property(namespace, feature, value)


class PropertySet:
    """The properties of one variant; immutable, hashable, canonical.

    Iterating gives every `Property` in ascending order. Equality does not depend on the order of
    construction.

    >>> properties = PropertySet.from_mapping({"nvidia": {"sm_arch": ["90_real", "80_real"]}})
    >>> [str(item) for item in properties]
    ['nvidia :: sm_arch :: 80_real', 'nvidia :: sm_arch :: 90_real']
    """

    __slots__ = ("_features", "_hash")

    _features: tuple[tuple[Feature, tuple[str, ...]], ...]
    _hash: int | None

    def __init__(self, properties: Iterable[Property] = ()) -> None:
        values: dict[tuple[str, str], set[str]] = {}
        for item in properties:
            values.setdefault((item.namespace, item.feature), set()).add(item.value)
        self._freeze((feature_of(*pair), tuple(sorted(values[pair]))) for pair in values)

    @classmethod
    def of(cls, *properties: Property | Iterable[Property]) -> PropertySet:
        """Build a set from properties, or from iterables of them."""
        all_properties: list[Property] = []
        for argument in properties:
            if isinstance(argument, Property):
                all_properties.append(argument)
            else:
                all_properties.extend(argument)
        return cls(all_properties)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Mapping[str, Iterable[str]]]) -> PropertySet:
        """Build a set from ``{namespace: {feature: [value, ...]}}`` (F-23, F-25).

        :param mapping: empty inner objects and lists count as absent.
        """
        rows: list[tuple[Feature, tuple[str, ...]]] = []
        for namespace, features in mapping.items():
            for name, values in features.items():
                distinct = sorted(set(values))
                for value in distinct:
                    _check_value(value)
                if distinct:
                    rows.append((feature_of(namespace, name), tuple(distinct)))
        return cls.from_rows(rows)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[Feature, tuple[str, ...]]]) -> PropertySet:
        """Build a set from checked rows; for readers of documents.

        :param rows: each feature once, with its valid values: at least one, distinct
            and ascending.
        """
        self = cls.__new__(cls)
        self._freeze(rows)
        return self

    def _freeze(self, rows: Iterable[tuple[Feature, tuple[str, ...]]]) -> None:
        object.__setattr__(self, "_features", tuple(sorted(rows, key=_sort_key)))
        object.__setattr__(self, "_hash", None)

    def to_mapping(self) -> dict[str, dict[str, list[str]]]:
        """Return ``{namespace: {feature: [value, ...]}}`` with everything ascending."""
        mapping: dict[str, dict[str, list[str]]] = {}
        for feature, values in self._features:
            mapping.setdefault(feature.namespace, {})[feature.name] = list(values)
        return mapping

    def features(self) -> Iterator[tuple[Feature, tuple[str, ...]]]:
        """Yield each feature with its values, both ascending."""
        return iter(self._features)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces used, ascending."""
        return tuple(dict.fromkeys(feature.namespace for feature, _ in self._features))

    def __iter__(self) -> Iterator[Property]:
        for feature, values in self._features:
            for value in values:
                yield Property(feature.namespace, feature.name, value)

    def values(self, namespace: str, name: str) -> tuple[str, ...]:
        """Return the values of a feature, ascending; none when it is not in the set."""
        key = (namespace, name)
        index = bisect_left(self._features, key, key=_sort_key)
        items = self._features[index : index + 1]
        return items[0][1] if items and _sort_key(items[0]) == key else ()

    def has(self, namespace: str, name: str, value: str) -> bool:
        """Return whether a property is in the set."""
        values = self.values(namespace, name)
        index = bisect_left(values, value)
        return values[index : index + 1] == (value,)

    def uses(self, namespace: str) -> bool:
        """Return whether any property is of a namespace."""
        index = bisect_left(self._features, (namespace, ""), key=_sort_key)
        return any(row[0].namespace == namespace for row in self._features[index : index + 1])

    def __contains__(self, item: object) -> bool:
        return isinstance(item, Property) and self.has(item.namespace, item.feature, item.value)

    def __len__(self) -> int:
        return sum(len(values) for _, values in self._features)

    def __bool__(self) -> bool:
        return bool(self._features)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PropertySet):
            return NotImplemented
        return self._features == other._features

    def __hash__(self) -> int:
        if self._hash is None:  # most sets are never hashed
            object.__setattr__(self, "_hash", hash(self._features))
        return cast("int", self._hash)

    def __str__(self) -> str:
        return ", ".join(str(item) for item in self)

    def __repr__(self) -> str:
        return f"PropertySet.from_mapping({self.to_mapping()!r})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a PropertySet cannot be changed: {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a PropertySet cannot be changed: {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (PropertySet.from_mapping, (self.to_mapping(),))


@lru_cache(maxsize=4096)
def feature_of(namespace: str, name: str) -> Feature:
    """Return a feature, as the same object for the same parts: labels share few features."""
    return Feature(namespace, name)


def _sort_key(row: tuple[Feature, tuple[str, ...]]) -> tuple[str, str]:
    return (row[0].namespace, row[0].name)


EMPTY = PropertySet()
"""The set of the null variant."""


def _split(text: str, count: int, what: str) -> list[str]:
    parts = [part.strip(" \t") for part in text.split("::")]
    if len(parts) != count:
        raise UserError(
            f"{text!r} is not {what}",
            code="invalid-property",
            hint=f"write {' :: '.join(('namespace', 'feature', 'value')[:count])}",
        )
    return parts


def _check_name(what: str, text: str) -> None:
    if not is_name(text):
        raise UserError(
            f"{text!r} is not a valid {what}",
            code="invalid-property",
            hint="use lower-case ASCII letters, digits and '_' only (F-2)",
        )


def _check_value(text: str) -> None:
    if not is_value(text):
        raise UserError(
            f"{text!r} is not a valid value",
            code="invalid-property",
            hint="use lower-case ASCII letters, digits, '_' and '.' only (F-2)",
        )
