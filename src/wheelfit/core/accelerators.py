"""Accelerators, such as GPUs, and the preferences that select builds for them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.core.properties import Property, PropertySet
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms import providers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.ordering import Choice

ACCELERATORS: Mapping[str, Choice] = MappingProxyType(
    {
        family.namespace: Property(family.namespace, *family.accelerated_property)
        if family.accelerated_property
        else family.namespace
        for family in sorted(
            providers.accelerators(), key=lambda accelerator: accelerator.namespace
        )
    }
)
"""The preference for builds that use an accelerator, by its namespace: a property, or just the
namespace.
"""

LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        prefix: family.namespace
        for family in providers.accelerators()
        for prefix in family.library_packages
    }
)
"""The namespace of a package with only a vendor's libraries, by prefix of its name; as of 2026-11.
A package that depends on one is for that accelerator, even if it does not declare it.
"""

_LIBRARY_PREFIXES = tuple(LIBRARIES)
_NAME_END = pattern(r"[^a-z0-9-]")
_CPU_ONLY: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        accelerator.namespace: accelerator.cpu_only_property
        for accelerator in providers.accelerators()
        if accelerator.cpu_only_property
    }
)


def accelerators_of(properties: PropertySet) -> tuple[str, ...]:
    """Return the namespaces of the accelerators that a build uses."""
    return tuple(
        namespace
        for namespace in properties.namespaces
        if namespace in ACCELERATORS and not _is_cpu_only(namespace, properties)
    )


def _is_cpu_only(namespace: str, properties: PropertySet) -> bool:
    """Return whether a build is for machines without an accelerator of a namespace (P-150)."""
    if namespace not in _CPU_ONLY:
        return False
    feature, value = _CPU_ONLY[namespace]
    return properties.values(namespace, feature) == (value,)


def owner_of_libraries(name: str) -> str | None:
    """Return the namespace of a package with only a vendor's libraries; None for others."""
    if not name.startswith(_LIBRARY_PREFIXES):  # true of nearly all names
        return None
    return next(owner for prefix, owner in LIBRARIES.items() if name.startswith(prefix))


def accelerator_extras(core: CoreMetadata) -> list[str]:
    """Return the extras whose dependencies may be for an accelerator, from Requires-Dist alone."""
    extras: set[str] = set()
    for text in core.requires_texts if core.provides_extra else ():
        head, _, marker = text.lower().replace("_", "-").partition(";")
        if "extra" in marker:
            name = _NAME_END.split(head, maxsplit=1)[0]
            is_library = owner_of_libraries(name) is not None
            # Any other package must be named after the extra, as jax-cuda13-plugin.
            candidates = core.provides_extra if is_library else set(name.split("-"))
            extras |= {extra for extra in core.provides_extra & candidates if extra in marker}
    return sorted(extras)


def is_for_accelerator(name: str, extra: str) -> bool:
    """Return whether a dependency has a vendor's libraries, or is named after its extra.

    Such as ``jax-cuda13-plugin``, a dependency of ``jax[cuda13]``.
    """
    return owner_of_libraries(name) is not None or f"-{extra}-" in name


def library_major(name: str, version: str) -> str | None:
    """Return the major version of the vendor's platform that a library package is for.

    >>> library_major("nvidia-cudnn-cu13", "9.24.0.43"), library_major("nvidia-cufft", "12.2")
    ('13', None)

    :return: None if neither name nor version shows it.
    """
    family = providers.by_namespace(owner_of_libraries(name) or "")
    if family is None:
        return None
    if name in family.toolkit_packages:
        major = version.partition(".")[0]
        return major if major.isdecimal() else None
    _, separator, major = name.rpartition(family.library_suffix or "-")
    return major if separator and major in family.library_needs else None


def library_needs(namespace: str, major: str) -> tuple[Property, ...]:
    """Return the properties that a machine must support to use libraries of a major version."""
    family = providers.by_namespace(namespace)
    needs = () if family is None else family.library_needs.get(major, ())
    return tuple(Property(namespace, feature, value) for feature, value in needs)


def libraries_in_words(namespace: str) -> str:
    """Return the name of the libraries' platform, such as ``CUDA``."""
    family = providers.by_namespace(namespace)
    if family is None:
        return namespace
    # The requirement on one major version of the platform has the title of the platform.
    titles = [row.title for row in family.shared_requirements]
    return titles[0] if titles else family.device_without_article


def platform_in_words(namespace: str, properties: PropertySet) -> str:
    """Return the platform of a build for an accelerator, such as ``CUDA 12``."""
    family = providers.by_namespace(namespace)
    for row in () if family is None else family.shared_requirements:
        for owner, feature in row.features:
            values = properties.values(owner, feature)
            if values and row.is_major:
                return f"{row.title} {min(values).partition('.')[0]}"
    return libraries_in_words(namespace)
