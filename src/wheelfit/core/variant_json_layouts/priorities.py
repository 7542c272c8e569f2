"""Reading of ``default-priorities``: the namespaces, and in old layouts features and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from wheelfit.core.properties import Feature, is_name, is_value
from wheelfit.core.providers import Provider, StaticProvider
from wheelfit.core.strict_json import path_of, shown
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wheelfit.core.variant_json_layouts.findings import Findings

KEY = "default-priorities"
OLD_KEYS = frozenset(["namespace", "feature", "property"])
"""The keys below it in old layouts (F-49)."""


class OldPriorities(Struct):
    """The order of features and values that a document of an old layout states (F-49)."""

    features: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The features to put first, by namespace."""
    values: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """The values to put first, by namespace and feature, in document order."""


def put_first(first: Iterable[str], items: Iterable[str]) -> tuple[str, ...]:
    """Return items in a new order: first those that ``first`` lists, in its order (F-49)."""
    items = tuple(items)
    present = frozenset(items)
    return tuple(dict.fromkeys((*(item for item in first if item in present), *items)))


def read_namespaces(document: Mapping[str, Any], findings: Findings) -> tuple[str, ...]:
    """Read ``default-priorities.namespace`` (F-21); any fault makes the document unusable."""
    if KEY not in document:
        findings.add_fatal_fault((KEY,), "the key is missing", "F-20")
        return ()
    entry = document[KEY]
    if not isinstance(entry, dict):
        findings.add_fatal_fault((KEY,), f"expected an object, found {shown(entry)}", "F-32")
        return ()
    if "namespace" not in entry:
        findings.add_fatal_fault((KEY, "namespace"), "the key is missing", "F-21")
        return ()
    names = entry["namespace"]
    if not isinstance(names, list):
        findings.add_fatal_fault(
            (KEY, "namespace"), f"expected a list, found {shown(names)}", "F-32"
        )
        return ()
    if not names:
        findings.add_fatal_fault((KEY, "namespace"), "at least one namespace is needed", "F-21")
    seen: dict[str, None] = {}
    for index, name in enumerate(names):
        where = (KEY, "namespace", index)
        if not isinstance(name, str) or not is_name(name):
            findings.add_fatal_fault(where, f"{shown(name)} is not a valid namespace", "F-2")
        elif name in seen:
            findings.add_fatal_fault(where, f"{shown(name)} is listed more than once", "F-21")
        else:
            seen[name] = None
    return tuple(seen)


def read_old_priorities(document: Mapping[str, Any], findings: Findings) -> OldPriorities:
    """Read ``feature`` and ``property`` of an old layout (F-49, F-55)."""
    old_priorities = OldPriorities()
    entry = document.get(KEY)
    if not isinstance(entry, dict):
        return old_priorities
    feature_path, values_path = (KEY, "feature"), (KEY, "property")
    for namespace, names in _members(entry.get("feature", {}), feature_path, findings):
        old_priorities.features[namespace] = _items(
            names, (*feature_path, namespace), is_name, findings
        )
    for namespace, features in _members(entry.get("property", {}), values_path, findings):
        old_priorities.values[namespace] = by_feature = {}
        for name, items in _members(features, (*values_path, namespace), findings):
            where = (*values_path, namespace, name)
            if is_name(name):
                by_feature[name] = _items(items, where, is_value, findings)
            else:
                findings.add_noted_fault(
                    where, f"{shown(name)} is not a valid feature, ignored", "F-2"
                )
    return old_priorities


def _members(
    value: object, where: tuple[str, ...], findings: Findings
) -> Iterable[tuple[str, Any]]:
    """Return the members of an object; an empty list is read as an empty object (F-55)."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list) and not value:
        findings.add_noted_fault(where, "expected an object, found an empty list", "F-55")
        return ()
    rule = "F-55" if isinstance(value, list) else "F-32"
    findings.add_fatal_fault(where, f"expected an object, found {shown(value)}", rule)
    return ()


def _items(
    items: object,
    where: tuple[str, ...],
    is_valid: Callable[[str], bool],
    findings: Findings,
) -> tuple[str, ...]:
    """Return the valid items of a list of names or values."""
    if not isinstance(items, list):
        findings.add_fatal_fault(where, f"expected a list, found {shown(items)}", "F-32")
        return ()
    valid: dict[str, None] = {}
    for index, item in enumerate(items):
        if not isinstance(item, str):
            findings.add_fatal_fault(
                (*where, index), f"expected a string, found {shown(item)}", "F-32"
            )
        elif not is_valid(item):
            findings.add_noted_fault(
                (*where, index), f"{shown(item)} is not valid and is ignored", "F-2"
            )
        elif item in valid:
            findings.add_noted_fault(
                (*where, index), f"{shown(item)} is listed more than once", "F-49"
            )
        else:
            valid[item] = None
    return tuple(valid)


def drop_unknown_namespaces(
    old_priorities: OldPriorities, namespaces: Iterable[str], findings: Findings
) -> None:
    """Drop the priorities of namespaces that the document does not have, with a note."""
    known = frozenset(namespaces)
    for kind, by_namespace in (
        ("feature", old_priorities.features),
        ("property", old_priorities.values),
    ):
        for namespace in [name for name in by_namespace if name not in known]:
            del by_namespace[namespace]
            findings.add_note(f"{path_of(KEY, kind, namespace)}: unknown namespace, ignored (F-49)")


def order_static(
    namespace: str, provider: StaticProvider, old_priorities: OldPriorities, findings: Findings
) -> StaticProvider:
    """Return a static provider in the order of the old priorities of its document (F-49)."""
    by_name = {feature.name: feature for feature in provider.features}
    first = old_priorities.features.get(namespace, ())
    if len(by_name) > 1 and not by_name.keys() <= set(first):
        findings.add_note(
            f"{namespace}: no complete order of features, document order is used (F-50)"
        )
    values = old_priorities.values.get(namespace, {})
    return replace(
        provider,
        features=tuple(
            FeatureConfig(name, put_first(values.get(name, ()), by_name[name].values))
            for name in put_first(first, by_name)
        ),
    )


def non_static_priorities(
    providers: Mapping[str, Provider], old_priorities: OldPriorities
) -> tuple[dict[str, tuple[str, ...]], dict[Feature, tuple[str, ...]]]:
    """Return the features and values put first in namespaces that have no static list (F-49)."""
    features = {
        namespace: names
        for namespace, names in old_priorities.features.items()
        if names and not isinstance(providers.get(namespace), StaticProvider)
    }
    values = {
        Feature(namespace, name): items
        for namespace, by_feature in old_priorities.values.items()
        if not isinstance(providers.get(namespace), StaticProvider)
        for name, items in by_feature.items()
        if items
    }
    return features, values
