"""The hardware family of x86-64 processors, in plain values."""

from __future__ import annotations

from wheelfit_runtime.platforms.hardware_family import HardwareFamily, Plugin

FAMILY = HardwareFamily(
    namespace="x86_64",
    rank=10,
    devices="x86-64 processors",
    device="an x86-64 CPU",
    purpose="the level of an x86-64 processor (v1 to v4) and its features",
    example="x86_64 :: level :: v3",
    plugins=(
        Plugin(
            "x86-64-variant-provider",
            versions=("0.2.1",),
            endpoints=("x86_64_variant_provider",),
            is_registered=False,
        ),
        Plugin(
            "provider-variant-x86-64",
            versions=("0.0.1.post2",),
            endpoints=("provider_variant_x86_64.plugin:X8664Plugin", "provider_variant_x86_64"),
        ),
    ),
    baseline=("level", "v1"),
    overrides=("CONDA_OVERRIDE_ARCHSPEC",),
)
