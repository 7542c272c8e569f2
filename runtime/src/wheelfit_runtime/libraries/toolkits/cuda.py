"""The libraries of NVIDIA's CUDA toolkit, and others for CUDA, such as cuDNN and NCCL."""

from __future__ import annotations

from wheelfit_runtime.libraries.toolkits import Component, LibraryFamily

DATA_VERSION = "2026-11"


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
            {
                "11": "nvidia-cuda-runtime-cu11",
                "12": "nvidia-cuda-runtime-cu12",
                "13": "nvidia-cuda-runtime",
            },
            ("libcudart.so",),
            "cudart",
            has_version_of_family=True,
        ),
        "nvrtc": Component(
            {
                "11": "nvidia-cuda-nvrtc-cu11",
                "12": "nvidia-cuda-nvrtc-cu12",
                "13": "nvidia-cuda-nvrtc",
            },
            ("libnvrtc-builtins.so", "libnvrtc.so"),
            "nvrtc",
            has_version_of_family=True,
        ),
        # Not part of CUDA 11.
        "nvjitlink": Component(
            {"12": "nvidia-nvjitlink-cu12", "13": "nvidia-nvjitlink"},
            ("libnvJitLink.so",),
            "nvjitlink",
            has_version_of_family=True,
        ),
        # cuBLAS loads NVRTC by name on first use, so NVRTC must be loaded before.
        "cublas": Component(
            {"11": "nvidia-cublas-cu11", "12": "nvidia-cublas-cu12", "13": "nvidia-cublas"},
            ("libcublasLt.so", "libcublas.so"),
            "cublas",
            needs=("12:nvrtc", "13:nvrtc"),
        ),
        "cufft": Component(
            {"11": "nvidia-cufft-cu11", "12": "nvidia-cufft-cu12", "13": "nvidia-cufft"},
            ("libcufft.so",),
            "cufft",
            needs=("12:nvjitlink", "13:nvjitlink", "13:nvrtc"),
        ),
        "curand": Component(
            {"11": "nvidia-curand-cu11", "12": "nvidia-curand-cu12", "13": "nvidia-curand"},
            ("libcurand.so",),
            "curand",
            needs=("13:cudart",),
        ),
        "cusparse": Component(
            {"11": "nvidia-cusparse-cu11", "12": "nvidia-cusparse-cu12", "13": "nvidia-cusparse"},
            ("libcusparse.so",),
            "cusparse",
            needs=("12:nvjitlink", "13:nvjitlink"),
        ),
        "cusolver": Component(
            {"11": "nvidia-cusolver-cu11", "12": "nvidia-cusolver-cu12", "13": "nvidia-cusolver"},
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
            {
                "11": "nvidia-cuda-cccl-cu11",
                "12": "nvidia-cuda-cccl-cu12",
                "13": "nvidia-cuda-cccl",
            },
            (),
            "cccl",
        ),
        "nvfatbin": Component(
            {"12": "nvidia-nvfatbin-cu12", "13": "nvidia-nvfatbin"},
            ("libnvfatbin.so",),
            "nvfatbin",
            has_version_of_family=True,
        ),
        "npp": Component(
            {"11": "nvidia-npp-cu11", "12": "nvidia-npp-cu12", "13": "nvidia-npp"},
            ("libnpp",),
            "npp",
        ),
        "nvjpeg": Component(
            {"11": "nvidia-nvjpeg-cu11", "12": "nvidia-nvjpeg-cu12", "13": "nvidia-nvjpeg"},
            ("libnvjpeg.so",),
            "nvjpeg",
        ),
        "nvtx": Component(
            {"11": "nvidia-nvtx-cu11", "12": "nvidia-nvtx-cu12", "13": "nvidia-nvtx"},
            ("libnvToolsExt.so", "libnvtx3interop.so"),
            "nvtx",
            has_version_of_family=True,
        ),
        "cupti": Component(
            {
                "11": "nvidia-cuda-cupti-cu11",
                "12": "nvidia-cuda-cupti-cu12",
                "13": "nvidia-cuda-cupti",
            },
            ("libcupti.so",),
            "cupti",
            has_version_of_family=True,
        ),
        "cufile": Component(
            {"12": "nvidia-cufile-cu12", "13": "nvidia-cufile"},
            ("libcufile.so",),
            "cufile",
        ),
        # Not part of the toolkit: each version works with every minor version of a CUDA major.
        "cudnn": Component(
            {"11": "nvidia-cudnn-cu11", "12": "nvidia-cudnn-cu12", "13": "nvidia-cudnn-cu13"},
            ("libcudnn.so",),
            specifier=">=9,<10",
            needs=("cublas", "nvrtc"),
        ),
        "nccl": Component(
            {"11": "nvidia-nccl-cu11", "12": "nvidia-nccl-cu12", "13": "nvidia-nccl-cu13"},
            ("libnccl.so",),
            specifier=">=2,<3",
        ),
        "cusparselt": Component(
            {"12": "nvidia-cusparselt-cu12", "13": "nvidia-cusparselt-cu13"},
            ("libcusparseLt.so",),
            specifier=">=0.7,<1",
            needs=("cusparse", "nvrtc"),
        ),
        "cutensor": Component(
            {"11": "cutensor-cu11", "12": "cutensor-cu12", "13": "cutensor-cu13"},
            ("libcutensor.so",),
            specifier=">=2,<3",
            needs=("cublas", "nvrtc"),
        ),
        "cudss": Component(
            {"12": "nvidia-cudss-cu12", "13": "nvidia-cudss-cu13"},
            ("libcudss.so",),
            specifier=">=1,<2",
            needs=("cublas", "nvrtc"),
        ),
        "nvshmem": Component(
            {"12": "nvidia-nvshmem-cu12", "13": "nvidia-nvshmem-cu13"},
            ("libnvshmem_host.so",),
            specifier=">=3,<4",
        ),
    },
)
