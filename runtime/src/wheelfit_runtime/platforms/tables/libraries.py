"""What is known about the names of libraries that are of no family of hardware."""

from __future__ import annotations

from types import MappingProxyType

DATA_VERSION = "2026-11"
"""When these tables were last compared with published packages."""

# What comes with a driver and not with a package, by the beginning of the name; the rest stands
# with the families of hardware.
DRIVER: MappingProxyType[str, str] = MappingProxyType({"dxcore": "windows", "d3d12": "windows"})

OPENMP: MappingProxyType[str, str] = MappingProxyType(
    {
        "gomp": "gnu",
        "iomp5": "intel",
        "iomp5md": "intel",
        "omp": "llvm",
        "omp140": "llvm",
        "vcomp140": "microsoft",
    }
)
"""Families of OpenMP run-time libraries (P-160's names), by the name without "lib"."""

BLAS: MappingProxyType[str, str] = MappingProxyType(
    {
        "openblas": "openblas",
        "openblasp": "openblas",
        "openblas64_": "openblas",
        "scipy_openblas": "openblas",
        "scipy_openblas64_": "openblas",
        "mkl_rt": "mkl",
        "mkl_core": "mkl",
        "blis": "blis",
        "nvpl_blas_core": "nvpl",
    }
)
"""Families of linear algebra libraries (P-160's names), by the name without "lib"."""

# MPICH and all who keep its ABI (Intel MPI, MVAPICH, Cray) have number 12; Open MPI had 20
# before 40.
MPI_OF_SONAME: MappingProxyType[tuple[str, str], str] = MappingProxyType(
    {
        ("mpi", "12"): "mpich",
        ("mpich", "12"): "mpich",
        ("mpi", "20"): "openmpi",
        ("mpi", "40"): "openmpi",
    }
)
"""Families of MPI, by the name without "lib" and the first number of the SONAME."""
