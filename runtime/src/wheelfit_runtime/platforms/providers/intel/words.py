"""The words for what Intel's GPUs lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.providers.intel.record import FAMILY
from wheelfit_runtime.platforms.words import PACKAGE_LIST, AcceleratorWords, natural
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit_runtime.platforms.words import Feature


class Words(AcceleratorWords):
    """The words for what Intel's GPUs lack."""

    kind = FAMILY.device

    @classmethod
    def wish(cls, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Return what a feature asks for, as ``needs …``."""
        if feature.name != "device_ip":
            return super().wish(feature, wanted)
        return f"needs an Intel GPU that runs code for {_designs(sorted(wanted, key=natural))}"

    def feature(self, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Return why a feature is missing where others of the namespace are supported."""
        supported = self.supported(feature.name)
        if feature.name != "device_ip" or not supported or self.holder == PACKAGE_LIST:
            return super().feature(feature, wanted)
        return f"{self.wish(feature, wanted)}; {self.holder} runs {_designs(supported, 'and')}"


def _designs(values: Sequence[str], word: str = "or") -> str:
    """Write versions of Intel's GPUs with the names that compilers know them by (P-130)."""
    # Only here: no other command should wait for tables of GPUs to load.
    from wheelfit_runtime.platforms.providers.intel import tables as intel  # noqa: PLC0415

    designs = {str(ip): names[0] for ip, names in intel.DEVICES.items()}
    known = [f"{value} ({designs[value]})" if value in designs else value for value in values]
    return listed(known, word)
