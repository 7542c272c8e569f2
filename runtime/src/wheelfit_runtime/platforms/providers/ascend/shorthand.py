"""The words of ``--variant`` for builds for Ascend NPUs."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import Shorthand

SHORTHAND = Shorthand("ascend", "Ascend", aliases=("npu",))
