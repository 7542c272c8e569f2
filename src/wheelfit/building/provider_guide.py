"""Guides to namespaces for maintainers who add one to a project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.core.provider_table import EMULATED_PLUGINS
from wheelfit.core.providers import ABI_DEPENDENCY, default_endpoint
from wheelfit.core.static_families import STATIC_FAMILIES
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.features import FeatureConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_VALUES = 6
"""Values of a feature that are shown; some have hundreds."""


KNOWN_NAMESPACES = (*providers.namespaces(), *STATIC_FAMILIES, ABI_DEPENDENCY)
"""Namespaces whose entry in ``[variant.providers]`` can be generated."""


@dataclass(frozen=True, slots=True)
class Guide:
    """The facts about a namespace that a maintainer needs."""

    namespace: str
    kind: str
    """The kind of provider: ``detected``, ``static`` or ``built in``."""
    purpose: str
    """A phrase for the aspect of a machine or a build that it describes."""
    example: str
    features: tuple[FeatureConfig, ...]
    """The valid features, most preferred first; empty: any valid name."""
    entry: Mapping[str, Any]
    """The table below ``[variant.providers]``."""

    def lines(self) -> list[str]:
        """Return the guide as text."""
        kind_in_words = {
            "detected": "detected on each machine",
            "static": "the same everywhere; the list ranks the values",
            "built in": "part of every tool",
        }[self.kind]
        lines = [f"{self.namespace}: {self.purpose} ({kind_in_words})"]
        shown_features = self.features[:3]
        for feature in shown_features:
            values = ", ".join(feature.values[:_MAX_VALUES]) + (
                ", …" if len(feature.values) > _MAX_VALUES else ""
            )
            note = ", several at once" if feature.multi_value else ""
            lines.append(f"  {feature.name}{note}: {values}")
        if hidden_count := len(self.features) - len(shown_features):
            lines.append(f"  … and {hidden_count} more: `wheelfit providers show {self.namespace}`")
        lines.append(f"  as {self.example}")
        return lines

    def to_mapping(self) -> dict[str, object]:
        """Return the guide as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "namespace": self.namespace,
            "kind": self.kind,
            "purpose": self.purpose,
            "example": self.example,
            "features": [
                {
                    "feature": feature.name,
                    "values": list(feature.values),
                    "multi_value": feature.multi_value,
                }
                for feature in self.features
            ],
            "entry": dict(self.entry),
        }


def guide_to(namespace: str) -> Guide | None:
    """Return the guide to a namespace; None if it is unknown."""
    if namespace in STATIC_FAMILIES:
        family = STATIC_FAMILIES[namespace]
        purpose = family.purpose.rstrip(".")
        first = family.features[0]
        entry: dict[str, Any] = _static_entry(family.features)
        example = f"{namespace} :: {first.name} :: {first.values[0]}"
        purpose = purpose[:1].lower() + purpose[1:]
        return Guide(namespace, "static", purpose, example, family.features, entry)
    if namespace == ABI_DEPENDENCY:
        purpose = "versions of other packages that a build was made for"
        example = "abi_dependency :: torch :: 2.8"
        return Guide(namespace, "built in", purpose, example, (), {"builtin": ABI_DEPENDENCY})
    hardware = providers.by_namespace(namespace)
    if hardware is None:
        return None
    features = tuple(
        FeatureConfig(config.name, tuple(config.values), config.multi_value)
        for config in hardware.provider.get_all_configs()
    )
    return Guide(
        namespace,
        "detected",
        hardware.purpose,
        hardware.example,
        features,
        plugin_entry(namespace),
    )


def plugin_entry(namespace: str) -> dict[str, Any]:
    """Return the ``providers`` entry by which tools recognise their built-in provider (P-60)."""
    plugin = next((plugin for plugin in EMULATED_PLUGINS if plugin.namespace == namespace), None)
    if plugin is None:  # no published plugin, so wheelfit's own name is used
        family = providers.by_namespace(namespace)
        return {"requires": ["wheelfit-runtime"], "plugin-api": family.plugin_api} if family else {}
    entry: dict[str, Any] = {"requires": [f"{plugin.package}>={plugin.versions[0]},<1"]}
    if default_endpoint(plugin.package) not in plugin.endpoints:
        entry["plugin-api"] = plugin.endpoints[0]
    return entry


def _static_entry(features: Sequence[FeatureConfig]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if len(features) > 1:  # P-5
        entry["feature-order"] = [feature.name for feature in features]
    entry["static-properties"] = {feature.name: list(feature.values) for feature in features}
    return entry
