"""Reading of the entries of ``providers`` (P-1 to P-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.core.environments import first_everywhere
from wheelfit.core.properties import is_name, is_value
from wheelfit.core.providers import (
    ABI_DEPENDENCY,
    BrokenProvider,
    BuiltinProvider,
    PluginProvider,
    Provider,
    StaticProvider,
    default_endpoint,
    parse_endpoint,
)
from wheelfit.core.requirements import Requirement, parse_requirement
from wheelfit.core.strict_json import shown
from wheelfit.errors import InvalidRequirement
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wheelfit.core.variant_json_layouts.findings import Findings

KEY = "providers"
KINDS = ("static-properties", "requires", "builtin")
KNOWN_KEYS = frozenset([*KINDS, "optional", "feature-order", "plugin-api"])
BUILD_REQUIRES = "build-requires"
"""Only in pyproject.toml (P-9, B-20)."""

StaticLists = dict[str, tuple[str, ...]]


class Entry:
    """A reader of one provider entry, with the reason if the entry is broken."""

    __slots__ = ("_findings", "_steps", "unusable_reason", "values")

    def __init__(
        self, steps: tuple[str | int, ...], values: Mapping[str, Any], findings: Findings
    ) -> None:
        self.values = values
        self.unusable_reason: str | None = None
        """The reason the entry cannot be used; None: it can."""
        self._findings = findings
        self._steps = steps

    def fault(self, message: str, rule: str, *steps: str | int) -> None:
        """Add a violation that makes this namespace unsupported (F-130)."""
        fault = self._findings.add_fault((*self._steps, *steps), message, rule)
        if self.unusable_reason is None:
            self.unusable_reason = str(fault)

    def usable(self, namespace: str, provider: Provider) -> Provider:
        """Return the provider of an entry; if that cannot be used, a broken one, with a note."""
        reason = self.unusable_reason
        if reason is None:
            return provider
        self._findings.add_note(f"{namespace} is unsupported (F-130): {reason}")
        self._findings.add_degradation(namespace, "invalid-provider", reason)
        return BrokenProvider(reason)

    def minor_fault(self, message: str, rule: str, *steps: str | int) -> None:
        """Add a violation that readers accept without a note."""
        self._findings.add_minor_fault((*self._steps, *steps), message, rule)

    def flag(self, key: str, *, default: bool) -> bool:
        """Read a boolean (P-2)."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.fault(f"expected true or false, found {shown(value)}", "F-32", key)
            return default
        return value

    def requires(self, key: str = "requires") -> tuple[str, ...]:
        """Read the requirements of a plugin (P-6), of which there may be none."""
        items = self.values.get(key, [])
        if not isinstance(items, list):
            self.fault(f"expected a list, found {shown(items)}", "F-32", key)
            return ()
        requirements: list[Requirement] = []
        for index, item in enumerate(items):
            if not isinstance(item, str):
                message = f"expected a string, found {shown(item)}"
                self.fault(message, "F-32", key, index)
                continue
            try:
                requirement = parse_requirement(item, allow_variant_markers=True)
            except InvalidRequirement:
                message = f"{shown(item)} is not a dependency specifier"
                self.fault(message, "P-6", key, index)
                continue
            if requirement.marker is not None and requirement.marker.uses_variants:
                message = f"{shown(item)} depends on a variant, and none is chosen yet"
                self.fault(message, "F-109", key, index)
            requirements.append(requirement)
        if self.unusable_reason is None and requirements and self._findings.pedantic:
            first = first_everywhere(requirements)
            if first is not None and None in first:
                self.minor_fault("in some environment no requirement remains", "P-6", key)
        return tuple(item for item in items if isinstance(item, str))

    def plugin_api(self, requires: tuple[str, ...]) -> str | None:
        """Read ``plugin-api`` (P-7)."""
        if "plugin-api" not in self.values:
            if self.unusable_reason is None and not _one_default(
                requires, exactly=self._findings.pedantic
            ):
                problem = "the default depends on the environment, it must be given"
                self.minor_fault(problem, "P-7", "plugin-api")
            return None
        value = self.values["plugin-api"]
        if not isinstance(value, str):
            self.fault(f"expected a string, found {shown(value)}", "F-32", "plugin-api")
            return None
        endpoint = parse_endpoint(value)
        if endpoint is None:
            problem = f"{shown(value)} is not an object reference"
            self.fault(problem, "P-7", "plugin-api")
        elif endpoint != value:
            self.minor_fault(f"{shown(value)} has blanks", "P-7", "plugin-api")
        return endpoint

    def static_lists(self, *, key: str = "static-properties") -> StaticLists:
        """Read the values of each feature, both in document order (P-3)."""
        features = self.values[key]
        if not isinstance(features, dict):
            self.fault(f"expected an object, found {shown(features)}", "F-32", key)
            return {}
        if not features:
            self.minor_fault("at least one feature is needed", "P-3", key)
        lists: StaticLists = {}
        for name, values in features.items():
            if not is_name(name):
                self.fault(f"{shown(name)} is not a valid feature name", "F-2", key, name)
            lists[name] = self._value_list(values, key, name)
        return lists

    def _value_list(self, values: object, *steps: str) -> tuple[str, ...]:
        if not isinstance(values, list):
            self.fault(f"expected a list, found {shown(values)}", "F-32", *steps)
            return ()
        if not values:
            self.minor_fault("at least one value is needed", "P-3", *steps)
        seen: dict[str, None] = {}
        for index, value in enumerate(values):
            if not isinstance(value, str) or not is_value(value):
                self.fault(f"{shown(value)} is not a valid value", "F-2", *steps, index)
            elif value in seen:
                self.fault(f"{shown(value)} is listed more than once", "P-3", *steps, index)
            else:
                seen[value] = None
        return tuple(seen)

    def feature_order(self, lists: StaticLists) -> tuple[str, ...]:
        """Read ``feature-order`` (P-5)."""
        key = "feature-order"
        if key not in self.values:
            if len(lists) > 1:
                self.fault("the key is missing, there are several features", "P-5", key)
            return tuple(lists)
        names = self.values[key]
        if not isinstance(names, list):
            self.fault(f"expected a list, found {shown(names)}", "F-32", key)
            return tuple(lists)
        if not all(isinstance(name, str) for name in names) or (
            not names or sorted(names) != sorted(lists)
        ):
            self.fault("it must name every static feature once", "P-5", key)
            return tuple(lists)
        return tuple(names)


def configs(lists: StaticLists, order: Iterable[str]) -> tuple[FeatureConfig, ...]:
    """Return static lists as feature configs, in an order."""
    return tuple(FeatureConfig(name, lists[name]) for name in order)


def _one_default(requires: tuple[str, ...], *, exactly: bool) -> bool:
    """Return whether the first requirement after marker filtering is always the same (P-7).

    :param exactly: whether to evaluate the markers for every environment; else to count names,
        which is fast and may be too strict.
    """
    requirements = [parse_requirement(text, allow_variant_markers=False) for text in requires]
    names: set[str] = set()
    for requirement in requirements:
        names.add(default_endpoint(requirement.name))
        if requirement.marker is None:
            break
    if len(names) <= 1 or not exactly:
        return len(names) <= 1
    first = first_everywhere(requirements)
    if first is None:
        return False
    return len({default_endpoint(name) for name in first if name is not None}) <= 1


def read_entries(
    document: Mapping[str, Any],
    findings: Findings,
    read: Callable[[str, Entry], Provider],
) -> dict[str, Provider]:
    """Read every entry of ``providers``; a broken one affects its own namespace only (F-130).

    :param read: reads the entry of a namespace; its result is ignored for a broken entry.
    """
    if KEY not in document:
        findings.add_noted_fault((KEY,), "the key is missing", "F-20")
        return {}
    entries = document[KEY]
    if not isinstance(entries, dict):
        findings.add_noted_fault((KEY,), f"expected an object, found {shown(entries)}", "F-32")
        return {}
    providers: dict[str, Provider] = {}
    for namespace, values in entries.items():
        if not is_name(namespace):
            problem = f"{shown(namespace)} is not a valid namespace"
            findings.add_noted_fault((KEY, namespace), problem, "F-2")
            findings.add_degradation(
                namespace, "invalid-provider", "it is not a valid namespace (F-2)"
            )
            continue
        provider: Provider = BrokenProvider("")
        if isinstance(values, dict):
            entry_values = {key: value for key, value in values.items() if key != BUILD_REQUIRES}
            entry = Entry((KEY, namespace), entry_values, findings)
            if len(entry_values) < len(values):  # P-9
                entry.fault("it exists in pyproject.toml only", "P-9", BUILD_REQUIRES)
            provider = read(namespace, entry)
        else:
            entry = Entry((KEY, namespace), {}, findings)
            entry.fault(f"expected an object, found {shown(values)}", "F-32")
        providers[namespace] = entry.usable(namespace, provider)
    return providers


def read_providers(
    document: Mapping[str, Any],
    findings: Findings,
    *,
    tolerant: bool,
) -> dict[str, Provider]:
    """Read ``providers`` as PEP 850 specifies (P-1 to P-8).

    :param tolerant: whether unknown keys are ignored with a note (F-37).
    """

    def read(namespace: str, entry: Entry) -> Provider:
        provider = _provider(entry)
        unknown = [key for key in entry.values if key not in KNOWN_KEYS]
        if tolerant:
            findings.add_ignored_keys((KEY, namespace), unknown, rule="F-37", is_fault=False)
        else:
            for key in unknown:
                entry.fault("unknown key", "F-130", key)
        if (
            entry.unusable_reason is None
            and isinstance(provider, BuiltinProvider)
            and provider.name != ABI_DEPENDENCY
        ):
            name = shown(provider.name)
            findings.add_note(f"{namespace} is unsupported (P-8): unknown built-in {name}")
        return provider

    return read_entries(document, findings, read)


def _provider(entry: Entry) -> Provider:
    values = entry.values
    kinds = [kind for kind in KINDS if kind in values]
    if len(kinds) != 1:
        kinds_in_words = " and ".join(kinds) or "none"
        entry.fault(f"exactly one of {', '.join(KINDS)} is needed, found {kinds_in_words}", "P-1")
    optional = entry.flag("optional", default=False)
    if "feature-order" in values and "static-properties" not in values:
        entry.fault("only together with static-properties", "P-4", "feature-order")
    if "plugin-api" in values and "requires" not in values:
        entry.fault("only together with requires", "P-7", "plugin-api")
    provider: Provider = BrokenProvider("")
    if "static-properties" in values:
        lists = entry.static_lists()
        order = entry.feature_order(lists)
        provider = StaticProvider(configs(lists, order), optional=optional)
    if "requires" in values:
        requires = entry.requires()
        if not requires and entry.unusable_reason is None:
            entry.fault("at least one requirement is needed", "P-6", "requires")
        provider = PluginProvider(requires, entry.plugin_api(requires), optional=optional)
    if "builtin" in values:
        name = values["builtin"]
        if isinstance(name, str) and name:
            provider = BuiltinProvider(name, optional=optional)
        else:
            entry.fault(f"expected a name, found {shown(name)}", "P-8", "builtin")
    return provider


def match_priorities(
    providers: dict[str, Provider], namespaces: tuple[str, ...], findings: Findings
) -> dict[str, Provider]:
    """Return the providers of the listed namespaces, in their order (F-22, F-130)."""
    for namespace in namespaces:
        if namespace not in providers:
            problem = "a namespace of the priorities has no provider and is unsupported"
            findings.add_noted_fault((KEY, namespace), problem, "F-22")
            findings.add_degradation(namespace, "missing-provider", "it has no provider (F-22)")
    priorities = dict.fromkeys(namespaces)
    for namespace in providers:
        if namespace not in priorities:
            problem = "the namespace is not in the priorities, its provider is ignored"
            findings.add_noted_fault((KEY, namespace), problem, "F-22")
            findings.add_degradation(
                namespace, "unlisted-provider", "it is not in the priorities (F-22)"
            )
    return {name: providers[name] for name in priorities if name in providers}
