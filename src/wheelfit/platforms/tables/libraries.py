"""What is known about the names of accelerator libraries: whose they are, and which major.

A library's file name carries its SONAME's number, which is not always that of the
toolkit it belongs to: ``libcufft.so.11`` is CUDA 12's.
"""

from __future__ import annotations

from types import MappingProxyType

__all__ = [
    "BLAS",
    "CUDA_MAJOR_OF_SONAME",
    "CUDA_SAME_SONAME",
    "DATA_VERSION",
    "DRIVER",
    "MPI_OF_SONAME",
    "OPENMP",
    "OTHER_RUNTIMES",
]


def __dir__() -> list[str]:
    return __all__


DATA_VERSION = "2026-11"
"""When these tables were last compared with published packages."""

_SAME = MappingProxyType({11: 11, 12: 12, 13: 13})

# By the name without "lib", then by the first number of the SONAME; None: several majors have it.
CUDA_MAJOR_OF_SONAME: MappingProxyType[str, MappingProxyType[int, int | None]] = MappingProxyType(
    {
        "cudart": _SAME,
        "nvrtc": _SAME,
        "nvjitlink": _SAME,
        "cublas": _SAME,
        "cublaslt": _SAME,
        "nvblas": _SAME,
        "nvjpeg": _SAME,
        "cupti": _SAME,
        "cufft": MappingProxyType({10: 11, 11: 12, 12: 13}),
        "cufftw": MappingProxyType({10: 11, 11: 12, 12: 13}),
        "cusolver": MappingProxyType({11: None, 12: 13}),
        "cusolvermg": MappingProxyType({11: None, 12: 13}),
        "cusparse": MappingProxyType({11: 11, 12: None}),
    }
)

# Libraries whose SONAME is one and the same for several CUDA majors: two of them in one
# process are two contents under one name, and only the first is found by it.
CUDA_SAME_SONAME: frozenset[str] = frozenset(
    {
        "cudnn",
        "cufile",
        "curand",
        "cusparselt",
        "cutensor",
        "nccl",
        "nvinfer",
        "nvshmem_host",
        "nvtx3interop",
    }
)

# What comes with a driver and not with a package, by the beginning of the name.
DRIVER: MappingProxyType[str, str] = MappingProxyType(
    {
        "cuda": "nvidia",
        "cudadebugger": "nvidia",
        "nvidia-": "nvidia",
        "nvcuvid": "nvidia",
        "nvcuda": "nvidia",
        "dxcore": "windows",
        "d3d12": "windows",
        "ze_intel_gpu": "intel",
        "igc": "intel",
        "ascend_hal": "ascend",
    }
)

# Run-time libraries of other makers: by the name without "lib".
OTHER_RUNTIMES: MappingProxyType[str, str] = MappingProxyType(
    {
        "amdhip64": "rocm",
        "amd_comgr": "rocm",
        "amd_smi": "rocm",
        "hsa-runtime64": "rocm",
        "hipblas": "rocm",
        "hipblaslt": "rocm",
        "hipfft": "rocm",
        "hipsolver": "rocm",
        "hipsparse": "rocm",
        "hiprtc": "rocm",
        "miopen": "rocm",
        "rccl": "rocm",
        "rocblas": "rocm",
        "rocfft": "rocm",
        "rocm_smi64": "rocm",
        "rocsolver": "rocm",
        "rocsparse": "rocm",
        "ze_loader": "level-zero",
        "sycl": "oneapi",
        "ur_loader": "oneapi",
        "ascendcl": "cann",
        "hccl": "cann",
        "tpu": "tpu",
    }
)

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
