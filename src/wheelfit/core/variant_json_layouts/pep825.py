"""Layouts L4 and L5: PEP 825, which has no providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wheelfit.core.providers import Provider, StaticProvider
from wheelfit.core.variant_json_layouts import entries, priorities, schema, variants
from wheelfit.core.variant_json_layouts.layout import Parts
from wheelfit.core.variant_json_layouts.pep850 import KEYS, note_unknown_keys
from wheelfit.core.variant_json_layouts.priorities import non_static_priorities, order_static

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.variant_json_layouts.findings import Findings


class Pep825(Struct, frozen=True):
    """The reader of layouts L4 and L5."""

    name: str = "L5"
    title: str = "PEP 825 v0.1.1"
    has_prefixes: bool = False
    """Whether the priorities may name features and values too (L4)."""

    def read(self, document: Mapping[str, Any], findings: Findings, *, tolerant: bool) -> Parts:
        """Read a document; see `Layout.read`."""
        known_priorities = priorities.OLD_KEYS if self.has_prefixes else frozenset(["namespace"])
        note_unknown_keys(
            document,
            KEYS,
            findings,
            is_fault=not tolerant,
            known_priorities=known_priorities,
        )
        namespaces = priorities.read_namespaces(document, findings)
        old_priorities = priorities.OldPriorities()
        if self.has_prefixes:
            old_priorities = priorities.read_old_priorities(document, findings)
            priorities.drop_unknown_namespaces(old_priorities, namespaces, findings)
        providers: Mapping[str, Provider] = {}
        if entries.KEY in document:  # F-42
            problem = f"{self.title} has no providers; they are read as in PEP 850"
            findings.add_minor_fault((entries.KEY,), problem, "F-42")
            findings.add_note(f"{entries.KEY}: {problem} (F-42)")
            read = entries.read_providers(document, findings, tolerant=tolerant)
            if self.has_prefixes:
                for namespace, provider in read.items():
                    if isinstance(provider, StaticProvider):
                        read[namespace] = order_static(
                            namespace, provider, old_priorities, findings
                        )
            providers = entries.match_priorities(read, namespaces, findings)
        return Parts(
            namespaces,
            providers,
            variants.read_variants(document, namespaces, findings),
            *non_static_priorities(providers, old_priorities),
        )


PEP825 = Pep825()
PEP825_FIRST = Pep825("L4", "PEP 825 v0.1.0", has_prefixes=True)


def write(document: VariantDocument) -> dict[str, Any]:
    """Return a document as plain data in layout L5, which drops the providers (F-39)."""
    return {
        schema.KEY: schema.PEP_825,
        priorities.KEY: {"namespace": list(document.priorities)},
        variants.KEY: {label: item.to_mapping() for label, item in document.variants.items()},
    }
