"""The features and values of Intel's GPUs (P-130, P-132), and the words for missing ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.providers.intel import tables
from wheelfit_runtime.platforms.vocabulary import OfferedValues, Vocabulary
from wheelfit_runtime.platforms.words import PACKAGE_LIST, AcceleratorWords, natural_sort_key
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit_runtime.platforms.words import Feature

VOCABULARY = Vocabulary(
    {
        "device_ip": OfferedValues(
            tables.VALUES,
            # Future designs, which devices report themselves.
            pattern=re.compile(r"(3[5-9]|[4-9]\d)\.\d{1,3}\.\d{1,2}"),
            multi_value=True,
        )
    }
)


class Words(AcceleratorWords):
    """The words for missing features of Intel's GPUs."""

    def requirement(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the condition of a feature in words, such as ``needs …``."""
        if feature.name != "device_ip":
            return super().requirement(feature, values)
        sorted_values = sorted(values, key=natural_sort_key)
        return f"needs an Intel GPU that runs code for {_designs(sorted_values)}"

    def unsupported_feature(self, feature: Feature, values: tuple[str, ...]) -> str:
        """Return the reason one feature is missing where others of the namespace are supported."""
        supported = self.detection.values_of(feature.name)
        if feature.name != "device_ip" or not supported or self.machine == PACKAGE_LIST:
            return super().unsupported_feature(feature, values)
        return (
            f"{self.requirement(feature, values)}; {self.machine} runs {_designs(supported, 'and')}"
        )


def _designs(values: Sequence[str], word: str = "or") -> str:
    """Return versions of Intel's GPUs with their names in compilers (P-130)."""
    designs = {str(ip): names[0] for ip, names in tables.DEVICES.items()}
    named_values = [
        f"{value} ({designs[value]})" if value in designs else value for value in values
    ]
    return listed(named_values, word)
