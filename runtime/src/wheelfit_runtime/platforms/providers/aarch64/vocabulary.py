"""Which features and values the namespace of 64-bit Arm processors offers."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.aarch64 import tables
from wheelfit_runtime.platforms.vocabulary import Offered, Vocabulary, switches

VOCABULARY = Vocabulary(
    {
        "version": Offered(tables.VERSIONS),
        **switches(tables.FEATURES, tables.APPENDED),
    },
    misspelt=tables.MISSPELT,
)
