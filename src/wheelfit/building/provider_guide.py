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

_FEW = 6
"""Values that are shown of a feature; some have hundreds."""


KNOWN_NAMESPACES = (*providers.namespaces(), *STATIC_FAMILIES, ABI_DEPENDENCY)
"""Namespaces with enough data to write their provider."""


@dataclass(frozen=True, slots=True)
class Guide:
    """The facts about a namespace that a maintainer needs."""

    namespace: str
    kind: str
    """The kind of provider: ``detected``, ``static`` or ``built in``."""
    purpose: str
    """The aspect of a machine or a build that it describes; a phrase."""
    example: str
    features: tuple[FeatureConfig, ...]
    """The valid features, most preferred first; empty: any of the right form."""
    entry: Mapping[str, Any]
    """The table below ``[variant.providers]``."""

    def lines(self) -> list[str]:
        """Return it in words."""
        how = {
            "detected": "found out on each machine",
            "static": "the same everywhere; the list ranks the values",
            "built in": "every tool brings it",
        }[self.kind]
        lines = [f"{self.namespace}: {self.purpose} ({how})"]
        shown = self.features[:3]
        for one in shown:
            values = ", ".join(one.values[:_FEW]) + (", …" if len(one.values) > _FEW else "")
            several = ", several at once" if one.multi_value else ""
            lines.append(f"  {one.name}{several}: {values}")
        if left := len(self.features) - len(shown):
            lines.append(f"  … and {left} more: `wheelfit providers show {self.namespace}`")
        lines.append(f"  as {self.example}")
        return lines

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
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
        entry: dict[str, Any] = _static(family.features)
        example = f"{namespace} :: {first.name} :: {first.values[0]}"
        purpose = purpose[:1].lower() + purpose[1:]
        return Guide(namespace, "static", purpose, example, family.features, entry)
    if namespace == ABI_DEPENDENCY:
        purpose = "for which versions of other packages a build was made; no machine is asked"
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
    """Return the entry that every tool understands which brings this provider itself (P-60)."""
    row = next((one for one in EMULATED_PLUGINS if one.namespace == namespace), None)
    if row is None:  # no published plugin, so wheelfit's own name is used
        family = providers.by_namespace(namespace)
        return {"requires": ["wheelfit-runtime"], "plugin-api": family.plugin_api} if family else {}
    entry: dict[str, Any] = {"requires": [f"{row.package}>={row.versions[0]},<1"]}
    if default_endpoint(row.package) not in row.endpoints:
        entry["plugin-api"] = row.endpoints[0]
    return entry


def _static(features: Sequence[FeatureConfig]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if len(features) > 1:  # P-5
        entry["feature-order"] = [feature.name for feature in features]
    entry["static-properties"] = {feature.name: list(feature.values) for feature in features}
    return entry
