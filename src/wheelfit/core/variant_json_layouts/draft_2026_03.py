"""Layout L6: the draft of March 2026, between PEP 825 and PEP 850."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wheelfit.core.providers import ABI_DEPENDENCY, BuiltinProvider, PluginProvider, StaticProvider
from wheelfit.core.variant_json_layouts import entries, priorities, variants
from wheelfit.core.variant_json_layouts.layout import Parts
from wheelfit.core.variant_json_layouts.pep850 import KEYS, note_unknown_keys
from wheelfit.core.variant_json_layouts.priorities import non_static_priorities, order_static

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.providers import Provider
    from wheelfit.core.variant_json_layouts.findings import Findings

_ENTRY_KEYS = frozenset(["requires", "static-properties", "plugin-api", "optional"])


class Draft202603(Struct, frozen=True):
    """The reader of layout L6."""

    name: str = "L6"
    title: str = "the providers draft of March 2026"

    def read(self, document: Mapping[str, Any], findings: Findings, *, tolerant: bool) -> Parts:
        """Read a document; see `Layout.read`. Unknown keys are always ignored (F-46)."""
        del tolerant
        note_unknown_keys(
            document, KEYS, findings, is_fault=False, known_priorities=priorities.OLD_KEYS
        )
        namespaces = priorities.read_namespaces(document, findings)
        old_priorities = priorities.read_old_priorities(document, findings)
        providers = entries.read_entries(
            document,
            findings,
            lambda namespace, entry: _provider(namespace, entry, old_priorities, findings),
        )
        return draft_parts(document, namespaces, providers, old_priorities, findings)


DRAFT_2026_03 = Draft202603()


def _provider(
    namespace: str,
    entry: entries.Entry,
    old_priorities: priorities.OldPriorities,
    findings: Findings,
) -> Provider:
    values = entry.values
    unknown = [key for key in values if key not in _ENTRY_KEYS]
    findings.add_ignored_keys((entries.KEY, namespace), unknown, rule="F-46", is_fault=False)
    if ("requires" in values) == ("static-properties" in values):
        entry.fault("exactly one of requires, static-properties is needed", "P-1")
    optional = entry.flag("optional", default=False)
    if "static-properties" in values:
        lists = entry.static_lists()
        provider = StaticProvider(entries.configs(lists, order=lists), optional=optional)
        return order_static(namespace, provider, old_priorities, findings)
    requires = entry.requires()
    if not requires:
        entry.fault("it requires no package, so no plugin can be run", "F-52", "requires")
    return PluginProvider(requires, entry.plugin_api(requires), optional=optional)


def draft_parts(
    document: Mapping[str, Any],
    namespaces: tuple[str, ...],
    providers: dict[str, Provider],
    old_priorities: priorities.OldPriorities,
    findings: Findings,
) -> Parts:
    """Return the parts of a draft's document, whose providers have been read."""
    namespaces = _add_abi_dependency(document, namespaces, providers, findings)
    providers = entries.match_priorities(providers, namespaces, findings)
    priorities.drop_unknown_namespaces(old_priorities, namespaces, findings)
    return Parts(
        namespaces,
        providers,
        variants.read_variants(
            document, namespaces, findings, namespace_with_hyphens=ABI_DEPENDENCY
        ),
        *non_static_priorities(providers, old_priorities),
    )


def _add_abi_dependency(
    document: Mapping[str, Any],
    namespaces: tuple[str, ...],
    providers: dict[str, Provider],
    findings: Findings,
) -> tuple[str, ...]:
    """Add the provider of ``abi_dependency`` that old documents use without declaring it (F-54).

    :param providers: the providers read; a built-in one is added when needed.
    :return: the priorities, with the namespace last when it was not listed.
    """
    if ABI_DEPENDENCY in providers or not variants.uses_namespace(document, ABI_DEPENDENCY):
        return namespaces
    providers[ABI_DEPENDENCY] = BuiltinProvider(ABI_DEPENDENCY)
    findings.add_note(
        f"{ABI_DEPENDENCY} is used without a provider; read as the built-in one (F-54)"
    )
    if ABI_DEPENDENCY in namespaces:
        return namespaces
    return (*namespaces, ABI_DEPENDENCY)
