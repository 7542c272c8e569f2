"""Accelerators: hardware that people buy for speed, and by which wish a build of its is named."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.core.properties import Property
from wheelfit_runtime.platforms import providers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.ordering import Choice
    from wheelfit.core.properties import PropertySet

ACCELERATORS: Mapping[str, Choice] = MappingProxyType(
    {
        family.namespace: Property(family.namespace, *family.used_by)
        if family.used_by
        else family.namespace
        for family in sorted(providers.accelerators(), key=lambda one: one.namespace)
    }
)
"""Namespaces of accelerators by name, each with what builds that use it have."""


LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        beginning: family.namespace
        for family in providers.accelerators()
        for beginning in family.library_packages
    }
)
"""How the names of packages begin that hold nothing but a vendor's libraries, with whose they
are; as of 2026-11. What needs one is made for that accelerator, whatever it says itself."""

_UNUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {one.namespace: one.unused_by for one in providers.accelerators() if one.unused_by}
)


def accelerators_of(properties: PropertySet) -> tuple[str, ...]:
    """Return the namespaces of the accelerators that a build uses."""
    return tuple(
        namespace
        for namespace in properties.namespaces
        if namespace in ACCELERATORS and not _is_unused(namespace, properties)
    )


def _is_unused(namespace: str, properties: PropertySet) -> bool:
    """Return whether a build is for machines without an accelerator of a namespace (P-150)."""
    if namespace not in _UNUSED:
        return False
    feature, value = _UNUSED[namespace]
    return properties.values(namespace, feature) == (value,)


def owner_of_libraries(name: str) -> str | None:
    """Return whose accelerator a package only holds libraries of; None for all others.

    :param name: of the project, normalised.
    """
    for start, namespace in LIBRARIES.items():
        if name.startswith(start):
            return namespace
    return None
