"""Which features and values are offered in the namespaces of hardware (P-28), by namespace.

They stand with their families; see `wheelfit.platforms.vocabulary`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.platforms import families
from wheelfit.platforms.vocabulary import Offered, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VOCABULARIES", "Offered", "Vocabulary"]


def __dir__() -> list[str]:
    return __all__


VOCABULARIES: Mapping[str, Vocabulary] = MappingProxyType(
    {family.namespace: family.module("vocabulary").VOCABULARY for family in families.every()}
)
"""By namespace of hardware."""
