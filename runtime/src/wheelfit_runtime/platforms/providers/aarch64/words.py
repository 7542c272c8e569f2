"""The words for what a 64-bit Arm processor lacks."""

from __future__ import annotations

from wheelfit_runtime.platforms.providers.aarch64.record import FAMILY
from wheelfit_runtime.platforms.words import ProcessorWords


class Words(ProcessorWords):
    """The words for what a 64-bit Arm processor lacks."""

    kind = FAMILY.device
    growing = "version"

    @staticmethod
    def called(value: str) -> str:
        """Return what people call a value of the growing feature."""
        return f"Armv{value.removesuffix('a')}-A"
