"""The published plugins that built-in providers replace, as dated data (P-60).

The rows are in ``platforms/providers``, with the hardware families.
"""

from __future__ import annotations

from msgspec import Struct

from wheelfit_runtime.platforms import providers

TABLE_DATE = "2026-11"
"""The month in which the rows were compared with the published packages (P-64)."""


class EmulatedPlugin(Struct, frozen=True):
    """A published plugin that a built-in provider replaces (P-60)."""

    namespace: str
    package: str
    versions: tuple[str, ...]
    """The versions that the built-in provider is equivalent to."""
    endpoints: tuple[str, ...]
    """The effective ``plugin-api`` values of its plugin (P-7)."""


EMULATED_PLUGINS = tuple(
    EmulatedPlugin(family.namespace, plugin.package, plugin.versions, plugin.endpoints)
    for family in providers.families()
    for plugin in family.plugins
)
"""Every plugin that a built-in provider stands in for."""

UNREGISTERED = frozenset(
    plugin.package
    for family in providers.families()
    for plugin in family.plugins
    if not plugin.is_registered
)
"""Names that were not registered on PyPI at that date; anyone could have registered them since
(P-19).
"""

HARDWARE = frozenset(providers.namespaces())
"""The namespaces of hardware, for which a static list may be wrong on a machine (P-20)."""
