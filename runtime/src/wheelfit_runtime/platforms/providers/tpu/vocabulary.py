"""Which features and values the namespace of TPUs offers (P-150, P-153)."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.tpu import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary

VOCABULARY = Vocabulary(
    {
        "present": OfferedValues(tables.PRESENT),
        "generation": OfferedValues(wider=tables.GENERATIONS, is_optional=True),
    }
)
