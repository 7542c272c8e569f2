"""Variant metadata cut down to the wheels that a lock lists (F-116)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.core.labels import NULL
from wheelfit.core.properties import EMPTY
from wheelfit.core.property_support import namespaces_used

if TYPE_CHECKING:
    from collections.abc import Collection

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label


def prune(document: VariantDocument, labels: Collection[Label]) -> VariantDocument:
    """Return a document without unlisted labels, and without the parts only they used.

    The entry of each label that stays is whole; ``null`` gets one if it had none, for
    readers that do not know F-26. Namespaces go from priorities and providers together.

    :param document: the metadata of a release.
    :param labels: the labels of the listed wheels.
    """
    variants = {label: document.variants[label] for label in document.variants if label in labels}
    if NULL in labels and NULL not in document.unusable:
        variants.setdefault(NULL, EMPTY)
    used = namespaces_used(variants.values())
    kept = tuple(name for name in document.priorities if name in used)
    kept = kept or document.priorities[:1]  # F-21: null variants alone need one too
    return replace(
        document,
        priorities=kept,
        providers={name: provider for name, provider in document.providers.items() if name in kept},
        variants={label: variants[label] for label in sorted(variants)},
        feature_priorities={
            name: names for name, names in document.feature_priorities.items() if name in kept
        },
        value_priorities={
            feature: values
            for feature, values in document.value_priorities.items()
            if feature.namespace in kept
        },
        unusable={label: reason for label, reason in document.unusable.items() if label in labels},
    )
