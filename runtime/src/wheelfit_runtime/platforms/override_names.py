"""The environment variables of all families that replace detected values, by name (P-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms import overrides, providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_ANY = pattern(rf"{overrides.PREFIX}|[A-Z0-9]+_(VARIANT_)?PROVIDER_FORCE_")


def names_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of all variables that replace detected values, vendors' too."""
    of_families = (name for family in providers.every() for name in family.overrides)
    others = (*of_families, *overrides.CONDA_SYSTEM)
    beginnings = tuple(name for name in others if name.endswith("_"))
    return tuple(
        sorted(
            name
            for name in environ
            if _ANY.match(name) or name in others or name.startswith(beginnings)
        )
    )


def strays_in(environ: Mapping[str, str], namespaces: Iterable[str]) -> tuple[str, ...]:
    """Return the names of our variables without a meaning: likely misspelt."""
    known = tuple(f"{overrides.PREFIX}{namespace.upper()}_" for namespace in namespaces)
    return tuple(
        sorted(
            name
            for name in environ
            if name.startswith(overrides.PREFIX)
            and not name.startswith(known)
            and overrides.value_of(environ, name) is not None
        )
    )
