"""Provider metadata as values: who knows what a machine supports (P-1 to P-9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from wheelfit.platforms.features import FeatureConfig

__all__ = [
    "BrokenProvider",
    "BuiltinProvider",
    "PluginProvider",
    "Provider",
    "Recognition",
    "StaticProvider",
]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class StaticProvider:
    """Hold the complete answer; no code runs (P-3)."""

    features: tuple[FeatureConfig, ...]
    """Supported features, most preferred first; empty: nothing is supported."""
    optional: bool = False
    """Whether the user must enable it by name (P-2)."""
    enabled_by: str | None = None
    """Legacy ``enable-if``: a marker about the target; false disables (F-51)."""


@dataclass(frozen=True, slots=True)
class PluginProvider:
    """Name the packages that know the answer (P-6)."""

    requires: tuple[str, ...]
    """Dependency specifiers of the plugin, as written; at least one."""
    plugin_api: str | None = None
    """Object reference of the plugin; None: the default of P-7."""
    optional: bool = False
    """Whether the user must enable it by name (P-2)."""
    enabled_by: str | None = None
    """Legacy ``enable-if``: a marker about the target; false disables (F-51)."""


@dataclass(frozen=True, slots=True)
class BuiltinProvider:
    """Name a provider that every tool must bring itself (P-8)."""

    name: str
    """Only ``abi_dependency`` is known; another makes the namespace unsupported."""
    optional: bool = False
    """Whether the user must enable it by name (P-2)."""
    enabled_by: str | None = None
    """Legacy ``enable-if``: a marker about the target; false disables (F-51)."""


@dataclass(frozen=True, slots=True)
class BrokenProvider:
    """Stand for a provider entry that cannot be used (F-130)."""

    reason: str
    """What is wrong with it, in the words of the document."""


Provider: TypeAlias = StaticProvider | PluginProvider | BuiltinProvider | BrokenProvider
"""One entry of ``providers``."""


@dataclass(frozen=True, slots=True)
class Recognition:
    """Say whether one of wheelfit's own providers stands in for a plugin (P-60 to P-63)."""

    builtin: str | None
    """Name of the built-in provider; None when none stands in."""
    reason: str
    """Why, or why not, one sentence without a final full stop."""
    package: str | None = None
    """Normalised name of the one required package, when exactly one remains."""
    plugin_api: str | None = None
    """Effective endpoint, blanks removed (P-7)."""
