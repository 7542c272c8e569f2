"""The properties that a build must share with its process, as dated data.

Most properties are capabilities, which each package may use or not. Some are requirements:
libraries of two CUDA majors, or two implementations of BLAS, in one process are a known source of
crashes and wrong results.
"""

from __future__ import annotations

from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.hardware_family import SharedRequirement

DATA_VERSION = "2026-11"
"""When the rows were last compared with the published packages."""


ROWS: tuple[SharedRequirement, ...] = (
    *(row for family in providers.families() for row in family.shared_requirements),
    SharedRequirement("blas", "BLAS", (("blas_lapack", "provider"),)),
    SharedRequirement("openmp", "OpenMP", (("openmp", "provider"),)),
    SharedRequirement("mpi", "MPI", (("mpi", "provider"),)),
    # The metadata of torchvision and others does not name the build of torch that they need; the
    # family `pytorch` declares it.
    SharedRequirement("pytorch", "PyTorch build", (("pytorch", "build"),)),
)
