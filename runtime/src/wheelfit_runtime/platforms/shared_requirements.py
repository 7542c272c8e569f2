"""The properties that a build must share with its process, as dated data.

Most properties are capabilities: every package may make of the GPU or the processor what it can.
Some are requirements: libraries of two CUDA majors, or two implementations of BLAS, in one process
are a known source of crashes and wrong results.
"""

from __future__ import annotations

from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.hardware_family import SharedRequirement

DATA_VERSION = "2026-11"
"""When the rows were last compared with the published packages."""


ROWS: tuple[SharedRequirement, ...] = (
    *(row for family in providers.every() for row in family.shared_requirements),
    SharedRequirement("blas", "BLAS", (("blas_lapack", "provider"),)),
    SharedRequirement("openmp", "OpenMP", (("openmp", "provider"),)),
    SharedRequirement("mpi", "MPI", (("mpi", "provider"),)),
    # Nothing in the metadata of torchvision and its like names the build of torch that they go
    # with; the family `pytorch` declares it.
    SharedRequirement("pytorch", "PyTorch build", (("pytorch", "build"),)),
)
