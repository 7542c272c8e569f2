"""The hardware family of 64-bit Arm processors, in plain values."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import HardwareFamily, Plugin

FAMILY = HardwareFamily(
    namespace="aarch64",
    rank=20,
    devices="64-bit Arm processors",
    device="a 64-bit Arm CPU",
    purpose="the version of a 64-bit Arm processor and its features",
    example="aarch64 :: version :: 8.2a",
    plugins=(
        Plugin(
            "aarch64-variant-provider",
            ("0.2.0",),
            ("aarch64_variant_provider",),
            is_registered=False,
        ),
        Plugin(
            "provider-variant-aarch64",
            ("0.0.1.post2", "0.0.3"),
            ("provider_variant_aarch64.plugin:AArch64Plugin", "provider_variant_aarch64"),
        ),
    ),
    baseline=("version", "8a"),
    overrides=("CONDA_OVERRIDE_ARCHSPEC",),
)
