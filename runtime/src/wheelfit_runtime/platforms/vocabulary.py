"""Which features and values are offered in a namespace of hardware (P-28): the types.

Two circles for each: what the vendor's package offers, which every tool knows, and what wheelfit
offers beyond that (P-41). Each family has both in its module ``vocabulary``, by name
``VOCABULARY``.
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
    wider: tuple[str, ...] = ()
    """Values that wheelfit offers besides, after all of these."""
    pattern: re.Pattern[str] | None = None
    """How further values look, where the machine decides what there is."""
    multi_value: bool = False
    """Whether a wheel may list several (P-30)."""
    is_optional: bool = False
    """Whether a provider supports it only where the user wants that."""

    def is_known(self, value: str) -> bool:
        """Return whether any provider offers a value on any machine."""
        return (
            value in self.published
            or value in self.wider
            or (self.pattern is not None and self.pattern.fullmatch(value) is not None)
        )


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The features offered in one namespace."""

    features: Mapping[str, OfferedValues]
    misspelt: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the published package has by mistake, and the features it means (P-110)."""

    def is_disputed(self, feature: str) -> bool:
        """Return whether the published package spells a feature in another way than others do."""
        return feature in self.misspelt or any(feature in all_ for all_ in self.misspelt.values())


ON = ("on",)
"""The one value of features that are there or not."""


def switches(published: Iterable[str], wider: Iterable[str]) -> dict[str, OfferedValues]:
    """Return features that are there or not.

    :param published: names of those that the vendor's package offers.
    :param wider: names of those that wheelfit offers besides.
    """
    return {
        **{name: OfferedValues(ON) for name in published},
        **{name: OfferedValues(wider=ON) for name in wider},
    }
