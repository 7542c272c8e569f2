"""The words for what AMD's GPUs and ROCm lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.words import AcceleratorWords, natural
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.words import Feature


class Words(AcceleratorWords):
    """The words for what AMD's GPUs and ROCm lack."""

    kind = "an AMD GPU or ROCm"

    @classmethod
    def wish(cls, feature: Feature, wanted: tuple[str, ...]) -> str:
        """Return what a feature asks for, as ``needs …``."""
        values = listed(sorted(wanted, key=natural), "or")
        match feature.name:
            case "gfx_arch":
                return f"needs an AMD GPU {values}"
            case "rocm_version":
                return f"needs ROCm {values}"
            case _:
                return super().wish(feature, wanted)
