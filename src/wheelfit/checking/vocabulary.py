"""Which features and values are offered in the namespaces of hardware (P-28), by namespace.

They stand with their families; see `wheelfit_runtime.platforms.vocabulary`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import families

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.vocabulary import Vocabulary

VOCABULARIES: Mapping[str, Vocabulary] = MappingProxyType(
    {family.namespace: family.module("vocabulary").VOCABULARY for family in families.every()}
)
"""By namespace of hardware."""
