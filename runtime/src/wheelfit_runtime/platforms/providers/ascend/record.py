"""The hardware family of Huawei's Ascend NPUs, in plain values."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import (
    DevicePresets,
    HardwareFamily,
    Plugin,
    Shorthand,
)

PRESETS = DevicePresets("ascend", ("linux-x86_64", "linux-aarch64"))

FAMILY = HardwareFamily(
    namespace="ascend",
    rank=50,
    devices="Ascend NPUs",
    device="an Ascend NPU",
    purpose="the type of Huawei Ascend NPU",
    example="ascend :: npu_type :: 910b",
    plugins=(
        Plugin(
            "huawei-ascend-variant-provider",
            ("0.0.2",),
            ("huawei_ascend_variant_provider.plugin:AscendVariantPlugin",),
        ),
        Plugin(
            "ascend-variant-provider",
            ("0.0.2",),
            ("ascend_variant_provider.plugin:AscendVariantPlugin",),
        ),
    ),
    presence="npu_type",
    presets=PRESETS,
    shorthand=Shorthand("ascend", "Ascend", aliases=("npu",)),
    drivers=("ascend_hal",),
    runtimes={"ascendcl": "cann", "hccl": "cann"},
    masks=("ASCEND_RT_VISIBLE_DEVICES",),
    homes={
        "ASCEND_HOME_PATH": "the folder of CANN",
        "ASCEND_TOOLKIT_HOME": "the folder of CANN",
    },
    override_prefixes={"ASCEND_VARIANT_PROVIDER_": "replaces detected values"},
    recorded_variables=("ASCEND_", "NPU_"),
    steering_variables=("ASCEND_", "NPU_"),
    tools=("npu-smi",),
    pci_vendor=0x19E5,
    nodes=("davinci", "devmm", "hisi_hdc"),
    driver_files=("/usr/local/Ascend/driver/version.info",),
    common_names=("ascend", "huawei", "npu"),
)
