"""Which features and values AMD's namespace offers (P-120, P-121)."""

from __future__ import annotations

import re

from wheelfit_runtime.platforms.providers.amd import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary

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
