"""Speak PEP 850's plugin interface: every provider of ours is reachable through it (P-39)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.features import FeatureConfig


@dataclass
class PluginFeature:
    """One feature as the interface wants it: with a list of values (P-27)."""

    name: str
    values: list[str]
    """Most preferred first."""
    multi_value: bool


def as_plugin_features(features: Iterable[FeatureConfig]) -> list[PluginFeature]:
    """Return features in the interface's form, in the same order."""
    return [PluginFeature(f.name, list(f.values), f.multi_value) for f in features]
