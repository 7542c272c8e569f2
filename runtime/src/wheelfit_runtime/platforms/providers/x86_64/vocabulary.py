"""The features and values of x86-64 processors, and the words for missing ones."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.x86_64 import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary, switches
from wheelfit_runtime.platforms.words import ProcessorWords

VOCABULARY = Vocabulary(
    {
        "level": OfferedValues(tuple(name for name, _ in reversed(tables.LEVELS))),
        **switches(tables.FEATURES, tables.APPENDED),
    }
)


class Words(ProcessorWords):
    """The words for missing features of an x86-64 processor."""

    def full_value_name(self, value: str) -> str:
        """Return a name of a level that is clear without its architecture."""
        return f"x86-64-{value}"
