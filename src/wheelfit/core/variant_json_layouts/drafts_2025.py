"""Layouts L1 to L3: the drafts of 2025, which the published index uses.

They differ in the key that stops a provider from being queried on installation, and in the place of
its static values (F-47, F-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wheelfit.core.markers import parse_marker
from wheelfit.core.properties import is_name
from wheelfit.core.providers import ABI_DEPENDENCY, BuiltinProvider, PluginProvider, StaticProvider
from wheelfit.core.strict_json import path_of, shown
from wheelfit.core.variant_json_layouts import entries, priorities
from wheelfit.core.variant_json_layouts.draft_2026_03 import draft_parts
from wheelfit.core.variant_json_layouts.pep850 import KEYS, note_unknown_keys
from wheelfit.core.variant_json_layouts.priorities import order_static
from wheelfit.errors import InvalidMarker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.providers import Provider
    from wheelfit.core.variant_json_layouts.findings import Findings
    from wheelfit.core.variant_json_layouts.layout import Parts

STATIC_KEY = "static-properties"
_ENTRY_KEYS = frozenset(
    ["requires", "plugin-api", "optional", "enable-if", "plugin-use", "install-time"]
)
_PLUGIN_USES = ("all", "build", "none")


class Draft2025(Struct, frozen=True):
    """The reader of layouts L1 to L3."""

    name: str
    title: str
    static_on_top: bool
    """Whether static values are in ``static-properties`` (L3), or in the priorities."""

    def read(self, document: Mapping[str, Any], findings: Findings, *, tolerant: bool) -> Parts:
        """Read a document; see `Layout.read`. Unknown keys are always ignored (F-46)."""
        del tolerant
        known = KEYS | {STATIC_KEY} if self.static_on_top else KEYS
        note_unknown_keys(
            document, known, findings, is_fault=False, known_priorities=priorities.OLD_KEYS
        )
        namespaces = priorities.read_namespaces(document, findings)
        old_priorities = priorities.read_old_priorities(document, findings)
        static = self._static(document, old_priorities, findings)
        reader = _Providers(findings, old_priorities, static, self.static_on_top)
        providers = reader.read(document)
        unlisted = sorted(
            providers.keys() - set(namespaces), key=lambda name: (name == ABI_DEPENDENCY, name)
        )
        for namespace in unlisted:  # F-59, F-54
            findings.add_note(f"{namespace} is not in the priorities; it comes last (F-59)")
        return draft_parts(document, (*namespaces, *unlisted), providers, old_priorities, findings)

    def _static(
        self,
        document: Mapping[str, Any],
        old_priorities: priorities.OldPriorities,
        findings: Findings,
    ) -> Mapping[str, Any]:
        """Return the static values by namespace, not checked yet (F-48)."""
        if not self.static_on_top:
            return {
                namespace: {name: list(values) for name, values in features.items()}
                for namespace, features in old_priorities.values.items()
            }
        value = document.get(STATIC_KEY, {})
        if isinstance(value, dict):
            return value
        findings.add_noted_fault((STATIC_KEY,), f"expected an object, found {shown(value)}", "F-32")
        return {}


L1_LIKE_L2 = Draft2025("L1", "the unversioned draft", static_on_top=False)
L1_LIKE_L3 = Draft2025("L1", "the unversioned draft", static_on_top=True)
L2 = Draft2025("L2", "draft v0.0.2", static_on_top=False)
L3 = Draft2025("L3", "draft v0.0.3", static_on_top=True)


class _Providers(Struct):
    findings: Findings
    old_priorities: priorities.OldPriorities
    static: Mapping[str, Any]
    static_on_top: bool

    def read(self, document: Mapping[str, Any]) -> dict[str, Provider]:
        """Return every provider, including those that only have static values."""
        providers = entries.read_entries(document, self.findings, self._provider)
        if self.static_on_top:
            for namespace in self.static:
                if namespace not in providers and is_name(namespace):
                    self.findings.add_note(f"{namespace}: static values without provider (F-48)")
                    entry = entries.Entry((STATIC_KEY, namespace), {}, self.findings)
                    provider = self._static_provider(namespace, entry)
                    providers[namespace] = entry.usable(namespace, provider)
        return providers

    def _provider(self, namespace: str, entry: entries.Entry) -> Provider:
        unknown = [key for key in entry.values if key not in _ENTRY_KEYS]
        steps = (entries.KEY, namespace)
        self.findings.add_ignored_keys(steps, unknown, rule="F-46", is_fault=False)
        optional = entry.flag("optional", default=False)
        enabled_by = _enable_if(entry)
        if _runs_on_install(entry):
            if self.static_on_top and namespace in self.static:
                self.findings.add_note(
                    f"{path_of(STATIC_KEY, namespace)}: ignored, the plugin is run (F-48)"
                )
            requires = entry.requires()
            if not requires:
                entry.fault("it requires no package, so no plugin can be run", "F-52", "requires")
            plugin_api = entry.plugin_api(requires)
            return PluginProvider(requires, plugin_api, optional, enabled_by)
        if namespace == ABI_DEPENDENCY:  # F-54
            return BuiltinProvider(namespace, optional, enabled_by)
        static = self._static_provider(namespace, entry)
        return StaticProvider(static.features, optional, enabled_by)

    def _static_provider(self, namespace: str, entry: entries.Entry) -> StaticProvider:
        if namespace not in self.static:  # F-48
            self.findings.add_note(f"{namespace}: no static values, so nothing is supported (F-48)")
            return StaticProvider(())
        steps = (STATIC_KEY,) if self.static_on_top else (priorities.KEY, "property")
        lists_entry = entries.Entry(steps, self.static, self.findings)
        lists = lists_entry.static_lists(key=namespace)
        entry.unusable_reason = entry.unusable_reason or lists_entry.unusable_reason
        provider = StaticProvider(entries.configs(lists, order=lists))
        return order_static(namespace, provider, self.old_priorities, self.findings)


def _runs_on_install(entry: entries.Entry) -> bool:
    """Return whether the plugin is queried on installation (F-47)."""
    use = entry.values.get("plugin-use", "all")
    if use not in _PLUGIN_USES:
        entry.fault(f"{shown(use)} is not one of {', '.join(_PLUGIN_USES)}", "F-47", "plugin-use")
    return entry.flag("install-time", default=True) and use == "all"


def _enable_if(entry: entries.Entry) -> str | None:
    """Return the marker that enables a provider; None if there is none, or it is invalid (F-51)."""
    text = entry.values.get("enable-if")
    if text is None and "enable-if" not in entry.values:
        return None
    if not isinstance(text, str):
        entry.fault(f"expected a string, found {shown(text)}", "F-32", "enable-if")
        return None
    try:
        marker = parse_marker(text)
    except InvalidMarker:
        entry.fault(f"{shown(text)} is not an environment marker", "F-51", "enable-if")
        return None
    if marker.uses_variants:
        entry.fault(f"{shown(text)} depends on a variant", "F-109", "enable-if")
    return text
