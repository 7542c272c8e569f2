"""The libraries of NVIDIA's CUDA toolkit, and cuDNN."""

from __future__ import annotations

from wheelfit.runtime.libraries.families import Component, Family

__all__ = ["DATA_VERSION", "FAMILY"]


def __dir__() -> list[str]:
    return __all__


DATA_VERSION = "2026-11"
"""When these tables were last compared with what is published."""


FAMILY = Family(
    "cuda",
    title="CUDA",
    table="cuda-toolkit",
    has_driver=True,
    is_for_tegra=False,
    machines=(("Linux", "x86_64"), ("Linux", "aarch64")),
    usual=("cudart", "nvrtc"),
    components={
        "cudart": Component(
            {
                "11": "nvidia-cuda-runtime-cu11",
                "12": "nvidia-cuda-runtime-cu12",
                "13": "nvidia-cuda-runtime",
            },
            ("libcudart.so",),
            "cudart",
        ),
        "nvrtc": Component(
            {
                "11": "nvidia-cuda-nvrtc-cu11",
                "12": "nvidia-cuda-nvrtc-cu12",
                "13": "nvidia-cuda-nvrtc",
            },
            ("libnvrtc-builtins.so", "libnvrtc.so"),
            "nvrtc",
        ),
        # CUDA 11 has none; whoever asks for it there is told so.
        "nvjitlink": Component(
            {"12": "nvidia-nvjitlink-cu12", "13": "nvidia-nvjitlink"},
            ("libnvJitLink.so",),
            "nvjitlink",
        ),
        # It loads NVRTC by name when it is needed, so that must be mapped before.
        "cublas": Component(
            {"11": "nvidia-cublas-cu11", "12": "nvidia-cublas-cu12", "13": "nvidia-cublas"},
            ("libcublasLt.so", "libcublas.so"),
            "cublas",
            needs=("13:nvrtc",),
        ),
        "cufft": Component(
            {"11": "nvidia-cufft-cu11", "12": "nvidia-cufft-cu12", "13": "nvidia-cufft"},
            ("libcufft.so",),
            "cufft",
            needs=("12:nvjitlink", "13:nvjitlink"),
        ),
        "curand": Component(
            {"11": "nvidia-curand-cu11", "12": "nvidia-curand-cu12", "13": "nvidia-curand"},
            ("libcurand.so",),
            "curand",
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
        # Not part of the toolkit: its versions fit every minor version of a major one.
        "cudnn": Component(
            {"12": "nvidia-cudnn-cu12", "13": "nvidia-cudnn-cu13"},
            ("libcudnn.so",),
            specifier=">=9,<10",
            needs=("cublas", "nvrtc"),
        ),
    },
)
