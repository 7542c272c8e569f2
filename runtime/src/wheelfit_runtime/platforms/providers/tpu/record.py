"""The hardware family of Google's TPUs, in plain values."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import (
    DevicePresets,
    HardwareFamily,
    Plugin,
    Shorthand,
)

PRESETS = DevicePresets("tpu", ("linux-x86_64",))

FAMILY = HardwareFamily(
    namespace="tpu",
    rank=60,
    devices="Google TPUs",
    device="a TPU",
    purpose="the presence of a TPU",
    example="tpu :: present :: true",
    plugins=(
        Plugin(
            "tpu-variant-provider",
            ("0.1.0",),
            ("tpu_variant_provider.plugin:TpuVariantPlugin",),
            is_registered=False,
        ),
    ),
    # P-150: a build may also declare that it is for machines without one.
    accelerated_property=("present", "true"),
    cpu_only_property=("present", "false"),
    presets=PRESETS,
    shorthand=Shorthand(name="tpu", title="TPU"),
    runtimes={"tpu": "tpu"},
    variables={"TPU_VISIBLE_CHIPS": "the TPU chips that programs see"},
    override_prefixes={"TPU_VARIANT_PROVIDER_": "replaces detected values"},
    recorded_variables=("TPU_",),
    steering_variables=("TPU_",),
    pci_vendor=0x1AE0,
    nodes=("accel", "vfio"),
    common_names=("google", "tpu"),
)
