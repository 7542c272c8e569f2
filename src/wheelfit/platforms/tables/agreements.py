"""Which properties say with what a build shares its process, as dated data.

Most properties are capabilities: every package may make of the GPU or the processor what it can.
Some are requirements: libraries of two CUDA majors, or two implementations of BLAS, in one process
are a known source of crashes and wrong results.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DATA_VERSION", "ROWS", "Row"]


def __dir__() -> list[str]:
    return __all__


DATA_VERSION = "2026-11"
"""When the rows were last compared with the published packages."""


class Row(NamedTuple):
    """Hold one thing of which there is one value in an environment, and in a process."""

    name: str
    """What users call it, as ``cuda``."""
    title: str
    """How messages call it, as ``CUDA``."""
    features: tuple[tuple[str, str], ...]
    """Namespace and name of the features whose values say what a build was made for."""
    is_major: bool = False
    """Whether only the number before the first dot must be the same."""
    is_bound: bool = False
    """Whether the values are lower bounds: of several the lowest says what a build was made for."""


ROWS: tuple[Row, ...] = (
    # Libraries of two majors have different names for the loader, so both end up in one process;
    # minor versions of one major are compatible (the vendor's "minor version compatibility").
    # `nvidia :: cuda` is what builds of 2025 had in place of the bound.
    Row(
        "cuda",
        "CUDA",
        (("nvidia", "cuda_version_lower_bound"), ("nvidia", "cuda")),
        is_major=True,
        is_bound=True,
    ),
    # ROCm's libraries change their names for the loader with the major as well.
    Row("rocm", "ROCm", (("amd", "rocm_version"),), is_major=True),
    Row("blas", "BLAS", (("blas_lapack", "provider"),)),
    Row("openmp", "OpenMP", (("openmp", "provider"),)),
    Row("mpi", "MPI", (("mpi", "provider"),)),
)
