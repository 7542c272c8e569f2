"""Which published plugins wheelfit's own providers stand in for: dated data (P-60).

The rows stand with their families, in ``platforms/providers``.
"""

from __future__ import annotations

from msgspec import Struct

from wheelfit_runtime.platforms import providers

TABLE_DATE = "2026-11"
"""When the rows were compared with the published packages (P-64)."""


class EmulatedPlugin(Struct, frozen=True):
    """One row of P-60."""

    namespace: str
    package: str
    versions: tuple[str, ...]
    """Its versions that the built-in provider agrees with."""
    endpoints: tuple[str, ...]
    """Effective ``plugin-api`` values that mean its plugin (P-7)."""


EMULATED_PLUGINS = tuple(
    EmulatedPlugin(family.namespace, plugin.package, plugin.versions, plugin.endpoints)
    for family in providers.every()
    for plugin in family.plugins
)
"""Every plugin that a built-in provider stands in for."""

UNREGISTERED = frozenset(
    plugin.package
    for family in providers.every()
    for plugin in family.plugins
    if not plugin.is_registered
)
"""Names of these not registered on PyPI at that date, so that anyone could register them since
(P-19).
"""

HARDWARE = frozenset(providers.namespaces())
"""Namespaces of hardware, of which a package cannot know what a machine has (P-20)."""
