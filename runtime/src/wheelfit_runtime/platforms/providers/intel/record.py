"""The hardware family of Intel's GPUs, in plain values."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import (
    DevicePresets,
    HardwareFamily,
    Plugin,
    Shorthand,
)

PRESETS = DevicePresets("intel", ("linux-x86_64", "windows-x86_64"), ", by product or design")

FAMILY = HardwareFamily(
    namespace="intel",
    rank=40,
    devices="Intel GPUs",
    device="an Intel GPU",
    purpose="the designs of Intel's GPUs",
    example="intel :: device_ip :: 30.4.4",
    plugins=(
        Plugin(
            "intel-variant-provider",
            ("0.0.2", "0.0.3"),
            ("intel_variant_provider.plugin:IntelVariantPlugin",),
        ),
    ),
    presence="device_ip",
    presets=PRESETS,
    shorthand=Shorthand("xpu", "Intel GPU", aliases=("intel",)),
    drivers=("ze_intel_gpu", "igc"),
    runtimes={"ze_loader": "level-zero", "sycl": "oneapi", "ur_loader": "oneapi"},
    is_part_of_processors=True,
    library_packages=("intel-sycl-rt", "intel-opencl-rt", "dpcpp-cpp-rt"),
    homes={"ONEAPI_ROOT": "the folder of oneAPI"},
    variables={
        "ZE_AFFINITY_MASK": "the Intel GPUs and tiles that programs see",
        "ONEAPI_DEVICE_SELECTOR": "the devices that SYCL programs see",
    },
    override_prefixes={"INTEL_VARIANT_PROVIDER_": "replaces detected values"},
    recorded_variables=("INTEL_VARIANT_PROVIDER_", "ONEAPI_", "ZE_"),
    steering_variables=("INTEL_", "ONEAPI_", "ZEL_", "ZES_", "ZE_"),
    tools=("xpu-smi",),
    pci_vendor=0x8086,
    nodes=("dri",),
    driver_files=("/sys/module/i915/srcversion", "/sys/module/xe/srcversion"),
    common_names=("intel",),
)
