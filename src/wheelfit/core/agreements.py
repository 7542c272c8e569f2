"""Agreements: properties that must be equal for all packages of an environment, as dated data.

Most properties may differ between packages, as the processor level. But libraries of two CUDA major
versions, or two implementations of BLAS, in one process can cause crashes and wrong results. Such
properties are listed here, and users may add others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from wheelfit.core.properties import Feature, PropertySet, feature_of, parse_feature
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms import shared_requirements as tables
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


DATA_VERSION = tables.DATA_VERSION
"""The month in which the rows were last compared with published packages."""
ALL = ":all:"
"""The name for all agreements."""

Part = Literal["major", "whole"]


class Agreement(NamedTuple):
    """A requirement that all builds of an environment have the same value."""

    name: str
    """The name in options, such as ``cuda``."""
    title: str
    """The name in messages, such as ``CUDA``."""
    features: tuple[Feature, ...]
    part: Part = "whole"
    """The part of a value that must be equal: the number before the first dot, or all of it."""
    is_bound: bool = False
    """Whether the values are lower bounds, of which only the lowest of a build is compared."""

    def values(self, properties: PropertySet) -> frozenset[str]:
        """Return the values of a build to compare; empty if it declares none."""
        relevant: set[str] = set()
        for feature in self.features:
            values: Sequence[str] = properties.values(feature.namespace, feature.name)
            if values and self.is_bound:
                values = [min(values, key=value_key)]
            relevant.update(self._relevant(value) for value in values)
        return frozenset(relevant)

    def in_words(self, values: Iterable[str]) -> str:
        """Return values in words, such as ``CUDA 12`` or ``ROCm 6 or 7``."""
        return f"{self.title} {listed(sorted(values, key=value_key), 'or')}"

    def _relevant(self, value: str) -> str:
        return value.partition(".")[0] if self.part == "major" else value


AGREEMENTS: tuple[Agreement, ...] = tuple(
    Agreement(
        row.name,
        row.title,
        tuple(feature_of(*feature) for feature in row.features),
        "major" if row.is_major else "whole",
        row.is_bound,
    )
    for row in tables.ROWS
)
"""The built-in agreements."""


class AgreedValue(NamedTuple):
    """The value of an agreement in an environment."""

    agreement: Agreement
    value: str
    because: str = ""
    """The origin, such as ``because of flash-attn``; empty if not known yet."""
    exempts_installed: bool = False
    """Whether only new builds must have it, since installed ones have different values already."""

    def objection(self, properties: PropertySet) -> str | None:
        """Return the reason a build contradicts the others, or None if it does not."""
        values = self.agreement.values(properties)
        if not values or self.value in values:
            return None
        built = f"is built for {self.agreement.in_words(values)}"
        if not self.because:
            return f"{built}, not for {self}"
        return f"{built}, this environment has {self} {self.because}"

    def __str__(self) -> str:
        return self.agreement.in_words([self.value])


def common_values(values: Iterable[frozenset[str]]) -> frozenset[str] | None:
    """Return the values that builds have in common; None when none of them declares one."""
    shared: frozenset[str] | None = None
    for values_of_build in values:
        if values_of_build:
            shared = values_of_build if shared is None else shared & values_of_build
    return shared


def differing_agreement(
    before: PropertySet, after: PropertySet, agreements: Iterable[Agreement]
) -> Agreement | None:
    """Return the agreement in which two builds differ in value; None: in none.

    A build that has a value differs from one without.
    """
    for agreement in agreements:
        old_values, new_values = agreement.values(before), agreement.values(after)
        if (old_values or new_values) and old_values.isdisjoint(new_values):
            return agreement
    return None


def agreements_named(text: str, agreements: Iterable[Agreement]) -> frozenset[str]:
    """Return the names of the agreements that a user means.

    :param text: a name, a feature as ``nvidia :: cuda_version_lower_bound``, or ``:all:``.
    :raises UserError: ``invalid-property``; there is no such agreement.
    """
    known = list(agreements)
    name = text.strip()
    if name == ALL:
        return frozenset(agreement.name for agreement in known)
    feature = parse_feature(name) if "::" in name else None
    matching = frozenset(
        agreement.name
        for agreement in known
        if name == agreement.name or feature in agreement.features
    )
    if not matching:
        names = ", ".join(agreement.name for agreement in known)
        raise UserError(
            f"packages need not agree on {name!r}",
            code="invalid-property",
            hint=f"they agree on {names}",
        )
    return matching


def with_user_agreements(own: Iterable[Agreement]) -> tuple[Agreement, ...]:
    """Return the built-in agreements and a user's, which replace those of the same name.

    :param own: the user's; of several with one name, the first is used.
    """
    agreements = (*AGREEMENTS, *reversed([*own]))
    return tuple({agreement.name: agreement for agreement in agreements}.values())


def binding_agreements(own: Iterable[Agreement], mixed: Iterable[str]) -> tuple[Agreement, ...]:
    """Return the agreements that bind, built-in and a user's.

    :param mixed: the agreements that packages may break, as `agreements_named` reads them.
    """
    known = with_user_agreements(own)
    not_binding = frozenset().union(*(agreements_named(text, known) for text in mixed))
    return tuple(agreement for agreement in known if agreement.name not in not_binding)


_DIGITS = pattern(r"(\d+)")
_MAX_DIGITS = 20
"""A number of this many digits or more is compared as text: Python refuses to read very long ones.
"""


def value_key(value: str) -> tuple[tuple[int, int, str], ...]:
    """Return a natural sort key of a value: ``9`` before ``12``, ``12.8`` before ``12.10``."""
    parts = [part for part in _DIGITS.split(value) if part not in ("", ".")]
    return tuple(
        (1, int(part), "") if part.isdecimal() and len(part) < _MAX_DIGITS else (0, 0, part)
        for part in parts
    )
