"""Which features and values Intel's namespace offers (P-130, P-132)."""

from __future__ import annotations

import re

from wheelfit_runtime.platforms.providers.intel import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary

VOCABULARY = Vocabulary(
    {
        "device_ip": OfferedValues(
            tables.VALUES,
            # The future's, as the device itself says.
            pattern=re.compile(r"(3[5-9]|[4-9]\d)\.\d{1,3}\.\d{1,2}"),
            multi_value=True,
        )
    }
)
