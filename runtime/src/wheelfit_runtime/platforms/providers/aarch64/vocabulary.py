"""Which features and values the namespace of 64-bit Arm processors offers."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.aarch64 import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary, switches

VOCABULARY = Vocabulary(
    {
        "version": OfferedValues(tables.VERSIONS),
        **switches(tables.FEATURES, tables.APPENDED),
    },
    misspelt=tables.MISSPELT,
)
