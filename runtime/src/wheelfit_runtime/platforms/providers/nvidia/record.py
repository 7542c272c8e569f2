"""The hardware family of NVIDIA's GPUs, in plain values."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import (
    DevicePresets,
    HardwareFamily,
    Plugin,
    SharedRequirement,
    Shorthand,
)

OLDEST_CUDA = 11
"""P-84: below this major nothing is supported."""
NEWEST_CUDA = (15, 20)
"""P-81: the newest CUDA version of the reference plugin."""

PRESETS = DevicePresets(
    "cuda",
    ("linux-x86_64", "linux-aarch64", "windows-x86_64"),
    "; M.m is the driver's CUDA version, cuda-M.m alone has no known GPU",
    "CUDA",
    ("cuda_version_lower_bound", "cuda_version_upper_bound"),
)

FAMILY = HardwareFamily(
    namespace="nvidia",
    rank=0,
    devices="NVIDIA GPUs",
    device="an NVIDIA GPU",
    purpose="the CUDA versions of the NVIDIA driver, and the code that the GPUs run",
    example="nvidia :: cuda_version_lower_bound :: 12.8",
    plugins=(
        Plugin(
            "nvidia-variant-provider",
            ("0.0.1", "0.0.2"),
            ("nvidia_variant_provider.plugin:NvidiaVariantPlugin",),
        ),
    ),
    presence="sm_arch",
    required_device="an NVIDIA GPU driver",
    presets=PRESETS,
    shorthand=Shorthand(
        "cuda",
        "CUDA",
        compact_prefix="cu",
        feature="cuda_version_lower_bound",  # P-80
        majors=range(OLDEST_CUDA, NEWEST_CUDA[0] + 1),
        minors=range(NEWEST_CUDA[1] + 1),
        example=("12", "13", "12.8"),
    ),
    shared_requirements=(
        # Libraries of two majors have different SONAMEs, so a process may load both; minor versions
        # of one major are compatible (NVIDIA's "minor version compatibility"). Builds of 2025 had
        # `nvidia :: cuda` instead of the bound.
        SharedRequirement(
            "cuda",
            "CUDA",
            (("nvidia", "cuda_version_lower_bound"), ("nvidia", "cuda")),
            is_major=True,
            is_bound=True,
        ),
    ),
    drivers=("cuda", "cudadebugger", "nvidia-", "nvcuvid", "nvcuda"),
    # cublas, cuda-*, cudnn, cufft, cusolver, cusparse, …; nccl, npp, nvjitlink, nvshmem, nvtx
    library_packages=("cuda-", "nvidia-cu", "nvidia-n"),
    library_suffix="-cu",
    toolkit_packages=(
        "cuda-toolkit",
        "cuda-bindings",
        "nvidia-cublas",
        "nvidia-cuda-cupti",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-runtime",
        "nvidia-nvjitlink",
        "nvidia-nvtx",
    ),
    # A driver runs all minor versions of its major. CUDA 12 has no code for GPUs before Maxwell,
    # CUDA 13 none for GPUs before Turing (release notes of the toolkits).
    library_needs={
        "11": (("cuda_version_lower_bound", "11.0"),),
        "12": (("cuda_version_lower_bound", "12.0"), ("sm_arch", "50_virtual")),
        "13": (("cuda_version_lower_bound", "13.0"), ("sm_arch", "75_virtual")),
    },
    masks=("CUDA_VISIBLE_DEVICES",),
    homes={
        "CUDA_HOME": "the CUDA toolkit of compilers",
        "CUDA_PATH": "the CUDA toolkit of compilers",
    },
    variables={
        "NVIDIA_VISIBLE_DEVICES": "the NVIDIA GPUs of a container",
        "NVIDIA_DRIVER_CAPABILITIES": "the parts of the driver in a container",
        "CUDA_DEVICE_ORDER": "the order in which programs number the GPUs",
    },
    override_prefixes={
        "NV_VARIANT_PROVIDER_": "replaces detected values",
        "NV_PROVIDER_": "obsolete, without effect",
    },
    recorded_variables=("CUDA_", "NVIDIA_", "NV_PROVIDER_", "NV_VARIANT_PROVIDER_"),
    overrides=("CONDA_OVERRIDE_CUDA", "CONDA_OVERRIDE_CUDA_ARCH"),
    steering_variables=("CUDA_", "NVIDIA_", "NV_"),
    tools=("nvidia-smi",),
    toolkit_tools=("nvcc",),
    pci_vendor=0x10DE,
    nodes=("nvgpu", "nvhost", "nvidia", "nvmap"),
    driver_files=("/proc/driver/nvidia/version", "/sys/module/nvidia/version"),
    driver_folders=("/proc/driver/nvidia/gpus", "/proc/driver/nvidia/capabilities"),
    common_names=("jetson", "tegra", "nvidia", "cuda"),
)
