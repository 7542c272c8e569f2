"""The environment variables of all families that replace detected values, by name (P-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms import overrides, providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GENERAL = pattern(rf"{overrides.PREFIX}|[A-Z0-9]+_(VARIANT_)?PROVIDER_FORCE_")


def override_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of all variables that replace detected values, vendors' too."""
    of_families = (name for family in providers.families() for name in family.overrides)
    further_names = (*of_families, *overrides.CONDA_SYSTEM)
    further_prefixes = tuple(name for name in further_names if name.endswith("_"))
    return tuple(
        sorted(
            name
            for name in environ
            if _GENERAL.match(name) or name in further_names or name.startswith(further_prefixes)
        )
    )


def unknown_overrides(environ: Mapping[str, str], namespaces: Iterable[str]) -> tuple[str, ...]:
    """Return the names of wheelfit's override variables that have no effect: likely misspelt."""
    known_prefixes = tuple(f"{overrides.PREFIX}{namespace.upper()}_" for namespace in namespaces)
    return tuple(
        sorted(
            name
            for name in environ
            if name.startswith(overrides.PREFIX)
            and not name.startswith(known_prefixes)
            and overrides.value_of(environ, name) is not None
        )
    )
