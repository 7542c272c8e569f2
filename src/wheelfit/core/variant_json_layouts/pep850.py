"""Layout L7: PEP 850 v0.2.0, the current one, with providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wheelfit.core.providers import BrokenProvider, BuiltinProvider, PluginProvider, StaticProvider
from wheelfit.core.variant_json_layouts import entries, priorities, schema, variants
from wheelfit.core.variant_json_layouts.layout import Parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.variant_json_layouts.findings import Findings

KEYS = frozenset([schema.KEY, priorities.KEY, entries.KEY, variants.KEY])


class Pep850(Struct, frozen=True):
    """The reader of layout L7."""

    name: str = "L7"
    title: str = "PEP 850 v0.2.0"

    def read(self, document: Mapping[str, Any], findings: Findings, *, tolerant: bool) -> Parts:
        """Read a document; see `Layout.read`."""
        note_unknown_keys(document, KEYS, findings, is_fault=not tolerant)
        namespaces = priorities.read_namespaces(document, findings)
        providers = entries.read_providers(document, findings, tolerant=tolerant)
        return Parts(
            namespaces,
            entries.match_priorities(providers, namespaces, findings),
            variants.read_variants(document, namespaces, findings),
        )


PEP850 = Pep850()


def note_unknown_keys(
    document: Mapping[str, Any],
    known: frozenset[str],
    findings: Findings,
    *,
    is_fault: bool,
    known_priorities: frozenset[str] = frozenset(["namespace"]),
) -> None:
    """Add unknown keys of the document and of its priorities to the findings (F-20, F-21)."""
    findings.add_ignored_keys(
        (), (key for key in document if key not in known), rule="F-20", is_fault=is_fault
    )
    entry = document.get(priorities.KEY)
    if isinstance(entry, dict):
        unknown = [key for key in entry if key not in known_priorities]
        findings.add_ignored_keys((priorities.KEY,), unknown, rule="F-21", is_fault=is_fault)


def write(document: VariantDocument) -> dict[str, Any]:
    """Return a document as plain data in this layout, without broken providers."""
    return {
        schema.KEY: schema.PEP_850,
        priorities.KEY: {"namespace": list(document.priorities)},
        entries.KEY: {
            name: _entry(provider)
            for name, provider in document.providers.items()
            if not isinstance(provider, BrokenProvider)
        },
        variants.KEY: {label: item.to_mapping() for label, item in document.variants.items()},
    }


def _entry(provider: StaticProvider | PluginProvider | BuiltinProvider) -> dict[str, Any]:
    match provider:
        case StaticProvider(features=features):
            names = [feature.name for feature in features]
            lists = {feature.name: list(feature.values) for feature in features}
            entry: dict[str, Any] = {"static-properties": lists}
            if len(names) > 1:  # P-5
                entry["feature-order"] = names
        case PluginProvider(requires=requires, plugin_api=plugin_api):
            entry = {"requires": list(requires)}
            if plugin_api is not None:
                entry["plugin-api"] = plugin_api
        case BuiltinProvider(name=name):
            entry = {"builtin": name}
    return {**entry, "optional": True} if provider.optional else entry
