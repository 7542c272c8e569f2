"""Which features and values the namespace of TPUs offers (P-150, P-153)."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.tpu import tables
from wheelfit_runtime.platforms.vocabulary import Offered, Vocabulary

VOCABULARY = Vocabulary(
    {
        "present": Offered(tables.PRESENT),
        "generation": Offered(wider=tables.GENERATIONS, is_optional=True),
    }
)
