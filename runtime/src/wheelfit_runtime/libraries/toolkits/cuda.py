"""The libraries of NVIDIA's CUDA toolkit, and others for CUDA, such as cuDNN and NCCL."""

from __future__ import annotations

from wheelfit_runtime.libraries.toolkits import Component, LibraryFamily

DATA_VERSION = "2026-11"


def _in_toolkit(name: str, first: int = 11) -> dict[str, str]:
    """Return the projects of a part of the toolkit, by major; from CUDA 13, without a suffix."""
    return {**{str(major): f"{name}-cu{major}" for major in range(first, 13)}, "13": name}


def _outside_toolkit(name: str, first: int = 11) -> dict[str, str]:
    """Return the projects of a library that is not part of the toolkit, by major."""
    return {str(major): f"{name}-cu{major}" for major in range(first, 14)}


FAMILY = LibraryFamily(
    "cuda",
    title="CUDA",
    metapackage="cuda-toolkit",
    has_driver=True,
    is_for_tegra=False,
    machines=(("Linux", "x86_64"), ("Linux", "aarch64")),
    default_components=("cudart", "nvrtc"),
    components={
        "cudart": Component(
            _in_toolkit("nvidia-cuda-runtime"),
            ("libcudart.so",),
            "cudart",
            has_version_of_family=True,
        ),
        "nvrtc": Component(
            _in_toolkit("nvidia-cuda-nvrtc"),
            ("libnvrtc-builtins.so", "libnvrtc.so"),
            "nvrtc",
            has_version_of_family=True,
        ),
        # Not part of CUDA 11.
        "nvjitlink": Component(
            _in_toolkit("nvidia-nvjitlink", first=12),
            ("libnvJitLink.so",),
            "nvjitlink",
            has_version_of_family=True,
        ),
        # cuBLAS 12 and 13 load NVRTC by name on first use, so NVRTC must be loaded before.
        "cublas": Component(
            _in_toolkit("nvidia-cublas"),
            ("libcublasLt.so", "libcublas.so"),
            "cublas",
            needs=("12:nvrtc", "13:nvrtc"),
        ),
        "cufft": Component(
            _in_toolkit("nvidia-cufft"),
            ("libcufft.so",),
            "cufft",
            needs=("12:nvjitlink", "13:nvjitlink", "13:nvrtc"),
        ),
        "curand": Component(
            _in_toolkit("nvidia-curand"),
            ("libcurand.so",),
            "curand",
            needs=("13:cudart",),
        ),
        "cusparse": Component(
            _in_toolkit("nvidia-cusparse"),
            ("libcusparse.so",),
            "cusparse",
            needs=("12:nvjitlink", "13:nvjitlink"),
        ),
        "cusolver": Component(
            _in_toolkit("nvidia-cusolver"),
            ("libcusolver.so",),
            "cusolver",
            needs=("cublas", "cusparse"),
        ),
        "nvvm": Component(
            {
                "11": "nvidia-cuda-nvcc-cu11",
                "12": "nvidia-cuda-nvcc-cu12",
                "13": "nvidia-nvvm",
            },
            ("libnvvm.so",),
            {"11": "nvcc", "12": "nvcc", "13": "nvvm"},
            has_version_of_family=True,
        ),
        # Headers only. Headers of other components include them, as cuda_fp16.h does.
        "cccl": Component(
            _in_toolkit("nvidia-cuda-cccl"),
            (),
            "cccl",
        ),
        "nvfatbin": Component(
            _in_toolkit("nvidia-nvfatbin", first=12),
            ("libnvfatbin.so",),
            "nvfatbin",
            has_version_of_family=True,
        ),
        "npp": Component(
            _in_toolkit("nvidia-npp"),
            ("libnpp",),
            "npp",
        ),
        "nvjpeg": Component(
            _in_toolkit("nvidia-nvjpeg"),
            ("libnvjpeg.so",),
            "nvjpeg",
        ),
        "nvtx": Component(
            _in_toolkit("nvidia-nvtx"),
            ("libnvToolsExt.so", "libnvtx3interop.so"),
            "nvtx",
            has_version_of_family=True,
        ),
        "cupti": Component(
            _in_toolkit("nvidia-cuda-cupti"),
            ("libcupti.so",),
            "cupti",
            has_version_of_family=True,
        ),
        "cufile": Component(
            _in_toolkit("nvidia-cufile", first=12),
            ("libcufile.so",),
            "cufile",
        ),
        # Not part of the toolkit: each version works with every minor version of a CUDA major.
        "cudnn": Component(
            _outside_toolkit("nvidia-cudnn"),
            ("libcudnn.so",),
            specifier=">=9,<10",
            needs=("cublas", "nvrtc"),
        ),
        "nccl": Component(
            _outside_toolkit("nvidia-nccl"),
            ("libnccl.so",),
            specifier=">=2,<3",
        ),
        "cusparselt": Component(
            _outside_toolkit("nvidia-cusparselt", first=12),
            ("libcusparseLt.so",),
            specifier=">=0.7,<1",
            needs=("cusparse", "nvrtc"),
        ),
        "cutensor": Component(
            _outside_toolkit("cutensor"),
            ("libcutensor.so",),
            specifier=">=2,<3",
            needs=("cublas", "nvrtc"),
        ),
        "cudss": Component(
            _outside_toolkit("nvidia-cudss", first=12),
            ("libcudss.so",),
            specifier=">=1,<2",
            needs=("cublas", "nvrtc"),
        ),
        "nvshmem": Component(
            _outside_toolkit("nvidia-nvshmem", first=12),
            ("libnvshmem_host.so",),
            specifier=">=3,<4",
        ),
    },
)
