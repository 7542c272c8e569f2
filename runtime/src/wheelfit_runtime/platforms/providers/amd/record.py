"""The hardware family of AMD's GPUs and ROCm, in plain values."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import (
    DevicePresets,
    HardwareFamily,
    Plugin,
    SharedRequirement,
    Shorthand,
)

PRESETS = DevicePresets(
    "rocm",
    ("linux-x86_64", "windows-x86_64"),
    "; M.m is the version of ROCm",
    "ROCm",
    ("rocm_version",),
)

FAMILY = HardwareFamily(
    namespace="amd",
    rank=30,
    devices="AMD GPUs",
    device="an AMD GPU",
    purpose="the AMD GPUs and the version of ROCm",
    example="amd :: gfx_arch :: gfx942",
    plugins=(
        Plugin(
            "amd-variant-provider",
            ("0.0.2",),
            ("amd_variant_provider.plugin:AMDVariantPlugin",),
            is_registered=False,
        ),
        Plugin(
            "rocm-bootstrap",
            ("0.3.0",),
            ("rocm_bootstrap.variant_provider:AMDVariantPlugin",),
        ),
    ),
    presence="gfx_arch",
    required_device="an AMD GPU or ROCm",
    presets=PRESETS,
    shorthand=Shorthand(
        "rocm",
        "ROCm",
        feature="rocm_version",  # P-120
        majors=range(5, 13),
        minors=range(21),
        example=("6", "7", "6.4"),
    ),
    shared_requirements=(
        # The SONAMEs of ROCm's libraries change with the major.
        SharedRequirement("rocm", "ROCm", (("amd", "rocm_version"),), is_major=True),
    ),
    runtimes=dict.fromkeys(
        (
            "amdhip64",
            "amd_comgr",
            "amd_smi",
            "hsa-runtime64",
            "hipblas",
            "hipblaslt",
            "hipfft",
            "hipsolver",
            "hipsparse",
            "hiprtc",
            "miopen",
            "rccl",
            "rocblas",
            "rocfft",
            "rocm_smi64",
            "rocsolver",
            "rocsparse",
        ),
        "rocm",
    ),
    library_packages=("rocm-sdk-",),
    masks=("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    homes={
        "ROCM_PATH": "the folder of ROCm",
        "ROCM_HOME": "the folder of ROCm",
        "HIP_PATH": "the folder of HIP",
    },
    variables={
        "GPU_DEVICE_ORDINAL": "the AMD GPUs that programs see",
        "HSA_OVERRIDE_GFX_VERSION": "the architecture that programs see for every AMD GPU",
    },
    override_prefixes={
        "AMD_VARIANT_PROVIDER_": "replaces detected values",
        "ROCM_BOOTSTRAP_": "replaces detected values",
    },
    overrides=("ROCM_BOOTSTRAP_FORCE_", "ROCM_BOOTSTRAP_DISABLE_DETECTION"),
    recorded_variables=(
        "AMD_VARIANT_PROVIDER_",
        "GPU_DEVICE_ORDINAL",
        "HIP_",
        "HSA_",
        "ROCM_",
        "ROCR_",
    ),
    steering_variables=("AMD_", "GPU_", "HIP_", "HSA_", "OCL_", "ROCM_", "ROCR_"),
    tools=("rocminfo", "rocm-smi", "amd-smi"),
    pci_vendor=0x1002,
    nodes=("dri", "kfd"),
    driver_files=("/sys/module/amdgpu/version", "/sys/module/amdgpu/srcversion"),
    driver_folders=("/sys/class/kfd/kfd/topology/nodes",),
    common_names=("amd", "rocm"),
)
