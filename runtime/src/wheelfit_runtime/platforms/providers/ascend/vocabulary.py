"""The features and values of Ascend NPUs (P-140, P-141)."""

from __future__ import annotations

import re

from wheelfit_runtime.platforms.providers.ascend import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary

_VERSION = re.compile(r"\d{1,3}\.\d{1,3}(\.\d{1,3})?(\.rc\d{1,2})?")

# The published package lists every value the vendor's tool prints.
VOCABULARY = Vocabulary(
    {
        "npu_type": OfferedValues(tables.PUBLISHED_TYPES, tables.APPENDED_TYPES),
        "driver_version": OfferedValues(pattern=_VERSION),
        "cann_version": OfferedValues(pattern=_VERSION),
    }
)
