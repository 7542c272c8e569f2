"""The words of ``--variant`` for builds for Ascend NPUs."""

from __future__ import annotations

from wheelfit.platforms.family import Shorthand

SHORTHAND = Shorthand("ascend", "Ascend", aliases=("npu",))
