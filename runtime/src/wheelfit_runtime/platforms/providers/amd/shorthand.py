"""The words of ``--variant`` for builds for ROCm."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import Shorthand

SHORTHAND = Shorthand(
    "rocm",
    "ROCm",
    feature="rocm_version",  # P-120
    majors=range(5, 13),
    minors=range(21),
    example=("6", "7", "6.4"),
)
