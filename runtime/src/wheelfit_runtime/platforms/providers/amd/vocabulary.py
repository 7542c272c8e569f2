"""The features and values of AMD's namespace (P-120, P-121), and the words for missing ones."""

from __future__ import annotations

import re

from wheelfit_runtime.platforms.providers.amd import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary
from wheelfit_runtime.platforms.words import AcceleratorWords, Feature, natural_sort_key
from wheelfit_runtime.wording import listed

VOCABULARY = Vocabulary(
    {
        "gfx_arch": OfferedValues(tables.PUBLISHED_GFX, tables.APPENDED_GFX, multi_value=True),
        "rocm_version": OfferedValues(
            tables.PUBLISHED_ROCM,
            tables.APPENDED_ROCM,
            re.compile(r"\d{1,2}\.\d{1,2}"),
        ),
    }
)


class Words(AcceleratorWords):
    """The words for missing features of AMD's GPUs and ROCm."""

    def requirement(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the condition of a feature in words, such as ``needs …``."""
        names = listed(sorted(values, key=natural_sort_key), "or")
        match feature.name:
            case "gfx_arch":
                return f"needs an AMD GPU {names}"
            case "rocm_version":
                return f"needs ROCm {names}"
            case _:
                return super().requirement(feature, values)
