"""The words of ``--variant`` for builds for CUDA."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import Shorthand
from wheelfit_runtime.platforms.providers.nvidia import tables

SHORTHAND = Shorthand(
    "cuda",
    "CUDA",
    squeezed="cu",
    feature="cuda_version_lower_bound",  # P-80
    majors=range(tables.OLDEST_CUDA, tables.NEWEST_CUDA.major + 1),
    minors=range(tables.NEWEST_CUDA.minor + 1),
    example=("12", "13", "12.8"),
)
