"""The types of the features and values offered in a namespace of hardware (P-28).

The vendor's package offers some, which every tool supports; wheelfit offers further ones (P-41).
Each family has both as ``VOCABULARY`` of its module ``vocabulary``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class OfferedValues:
    """The values offered of one feature."""

    published: tuple[str, ...] = ()
    """Values of the vendor's package, in its order."""
    unpublished: tuple[str, ...] = ()
    """Further values of wheelfit, which come after these."""
    pattern: re.Pattern[str] | None = None
    """The form of further values, where they depend on the machine."""
    multi_value: bool = False
    """Whether a wheel may list several (P-30)."""
    is_optional: bool = False
    """Whether a provider supports it only on request of the user."""

    def is_known(self, value: str) -> bool:
        """Return whether any provider offers a value on any machine."""
        return (
            value in self.published
            or value in self.unpublished
            or (self.pattern is not None and self.pattern.fullmatch(value) is not None)
        )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The features offered in one namespace."""

    features: Mapping[str, OfferedValues]
    misspelt: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Features of the published package that are mistakes, and the features meant (P-110)."""

    def is_disputed(self, feature: str) -> bool:
        """Return whether the published package spells a feature in another way than others do."""
        return feature in self.misspelt or any(
            feature in correct for correct in self.misspelt.values()
        )


ON = ("on",)
"""The one value of features that are present or absent."""


def switches(published: Iterable[str], unpublished: Iterable[str]) -> dict[str, OfferedValues]:
    """Return features that are present or absent.

    :param published: names of features of the vendor's package.
    :param unpublished: names of further features of wheelfit.
    """
    return {
        **{name: OfferedValues(ON) for name in published},
        **{name: OfferedValues(unpublished=ON) for name in unpublished},
    }
