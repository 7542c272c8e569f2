"""The features and values of 64-bit Arm processors, and the words for missing ones."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.aarch64 import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary, switches
from wheelfit_runtime.platforms.words import ProcessorWords

VOCABULARY = Vocabulary(
    {
        "version": OfferedValues(tables.VERSIONS),
        **switches(tables.FEATURES, tables.APPENDED),
    },
    misspelt=tables.MISSPELT,
)


class Words(ProcessorWords):
    """The words for missing features of a 64-bit Arm processor."""

    @staticmethod
    def value_name(value: str) -> str:
        """Return the usual name of a value of the level feature."""
        return f"Armv{value.removesuffix('a')}-A"
