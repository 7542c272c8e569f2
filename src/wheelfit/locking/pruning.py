"""Variant metadata reduced to the wheels that a lock lists (F-116)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.labels import NULL, Label
from wheelfit.core.properties import EMPTY
from wheelfit.core.property_support import namespaces_used

if TYPE_CHECKING:
    from collections.abc import Collection

    from wheelfit.core.document import VariantDocument


def prune(document: VariantDocument, labels: Collection[Label]) -> VariantDocument:
    """Return a document without unlisted labels, and without the parts only they used.

    The entries of listed labels are unchanged. If ``null`` is listed and has no entry, one is added
    for readers that do not implement F-26. Unused namespaces are removed from priorities and
    providers.
    """
    variants = {label: document.variants[label] for label in document.variants if label in labels}
    if NULL in labels and NULL not in document.unusable:
        variants.setdefault(NULL, EMPTY)
    used = namespaces_used(variants.values())
    namespaces = tuple(name for name in document.priorities if name in used)
    namespaces = namespaces or document.priorities[:1]  # F-21: null variants alone need one too
    return replace(
        document,
        priorities=namespaces,
        providers={
            name: provider for name, provider in document.providers.items() if name in namespaces
        },
        variants={label: variants[label] for label in sorted(variants)},
        feature_priorities={
            name: names for name, names in document.feature_priorities.items() if name in namespaces
        },
        value_priorities={
            feature: values
            for feature, values in document.value_priorities.items()
            if feature.namespace in namespaces
        },
        unusable={label: reason for label, reason in document.unusable.items() if label in labels},
    )
