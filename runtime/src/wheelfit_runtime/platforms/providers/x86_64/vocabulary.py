"""Which features and values the namespace of x86-64 processors offers."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.x86_64 import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary, switches

VOCABULARY = Vocabulary(
    {
        "level": OfferedValues(tuple(name for name, _ in reversed(tables.LEVELS))),
        **switches(tables.FEATURES, tables.APPENDED),
    }
)
