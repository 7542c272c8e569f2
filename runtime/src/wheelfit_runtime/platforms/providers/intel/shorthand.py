"""The words of ``--variant`` for builds for Intel's GPUs."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import Shorthand

SHORTHAND = Shorthand("xpu", "Intel GPU", aliases=("intel",))
