"""What is known about the names of CUDA's libraries: which major they are of.

A library's file name carries its SONAME's number, which is not always that of the
toolkit it belongs to: ``libcufft.so.11`` is CUDA 12's.
"""

from __future__ import annotations

from types import MappingProxyType

DATA_VERSION = "2026-11"
"""When these tables were last compared with published packages."""

_SAME = MappingProxyType({11: 11, 12: 12, 13: 13})

# By the name without "lib", then by the first number of the SONAME; None: several majors have it.
MAJOR_OF_SONAME: MappingProxyType[str, MappingProxyType[int, int | None]] = MappingProxyType(
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
SAME_SONAME: frozenset[str] = frozenset(
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
