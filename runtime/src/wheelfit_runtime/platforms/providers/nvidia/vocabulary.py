"""Which features and values NVIDIA's namespace offers."""

from __future__ import annotations

import re

from wheelfit_runtime.platforms.providers.nvidia.cuda_values import every_bound, every_sm_value
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary

_BOUND = OfferedValues(every_bound(), pattern=re.compile(r"(1[1-9]|[2-9]\d)(\.\d{1,2})?"))
_SM = every_sm_value()
# Those with a letter behind the number are wheelfit's (P-83).
_SM_PUBLISHED = tuple(value for value in _SM if value.partition("_")[0].isdecimal())

VOCABULARY = Vocabulary(
    {
        "cuda_version_lower_bound": _BOUND,
        "cuda_version_upper_bound": _BOUND,
        "sm_arch": OfferedValues(
            _SM_PUBLISHED,
            tuple(value for value in _SM if value not in _SM_PUBLISHED),
            # Capabilities of the future, as PTX that they will run (P-83).
            re.compile(r"1[3-9]\d[af]?_(real|virtual)"),
            multi_value=True,
        ),
    }
)
