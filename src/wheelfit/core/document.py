"""The model of a variant metadata document, for every layout.

`wheelfit.core.metadata` reads the JSON with the readers of `wheelfit.core.variant_json_layouts`;
everything else uses this model (F-41).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import force_setattr

from wheelfit.core.labels import NULL, Label
from wheelfit.core.properties import EMPTY, Feature, PropertySet
from wheelfit.core.unusable_metadata import Degradation, degradations_of_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.providers import Provider

WITHOUT_PROVIDERS = frozenset(["L4", "L5"])
"""The layouts of PEP 825, which has no providers."""


class VariantDocument(Struct, frozen=True):
    """The content of a ``variant.json`` or a ``-variants.json``.

    The mappings are copied and cannot be changed; use `msgspec.structs.replace`.
    """

    priorities: tuple[str, ...]
    """Namespaces, most important first (F-21)."""
    providers: Mapping[str, Provider] = field(default_factory=dict)
    """The providers, by namespace; a broken one has the reason (F-130)."""
    variants: Mapping[Label, PropertySet] = field(default_factory=dict)
    """The usable labels with the properties of each, as far as the document lists them."""
    feature_priorities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Legacy: features of a plugin namespace that come first, by namespace (F-49)."""
    value_priorities: Mapping[Feature, tuple[str, ...]] = field(default_factory=dict)
    """Legacy: values of a plugin namespace that come first, by feature (F-49)."""
    layout: str = "L7"
    """The layout it was read from, ``L1`` to ``L7`` (section 5 of the format rules)."""
    schema: str = ""
    """Its ``$schema`` as written; empty when it had none."""
    unusable: Mapping[str, str] = field(default_factory=dict)
    """Labels that are listed but broken, with the reason (F-130)."""
    notes: tuple[str, ...] = ()
    """The degradations and unusual parts found on reading, one sentence each (F-136)."""
    lost_namespaces: tuple[Degradation, ...] = ()
    """The namespaces lost to broken providers (F-130)."""

    @property
    def lacks_providers(self) -> bool:
        """Whether it has the layout of PEP 825 and no providers."""
        return self.layout in WITHOUT_PROVIDERS and not self.providers

    @property
    def degradations(self) -> tuple[Degradation, ...]:
        """The parts that are unused because they are broken (F-130, F-136)."""
        return (*self.lost_namespaces, *degradations_of_labels(self.unusable))

    def properties(self, label: str) -> PropertySet | None:
        """Return the properties of a label; ``null`` needs no entry (F-26).

        :return: its properties; None when the label is not listed or is unusable.
        """
        properties = self.variants.get(Label(label))
        if properties is None and label == NULL and label not in self.unusable:
            return EMPTY
        return properties

    def named_values(self, namespace: str) -> dict[str, set[str]]:
        """Return the values that usable labels name in a namespace, by feature, sorted by name."""
        values_by_feature: dict[str, set[str]] = {}
        for properties in self.variants.values():
            for feature, values in properties.features():
                if feature.namespace == namespace:
                    values_by_feature.setdefault(feature.name, set()).update(values)
        return dict(sorted(values_by_feature.items()))

    def __post_init__(self) -> None:
        for name in ("providers", "variants", "feature_priorities", "value_priorities", "unusable"):
            force_setattr(self, name, MappingProxyType(dict(getattr(self, name))))
