"""Which published plugins wheelfit's own providers stand in for: dated data (P-60)."""

from __future__ import annotations

from wheelfit.values import dataclass

__all__ = ["EMULATED_PLUGINS", "HARDWARE", "TABLE_DATE", "UNREGISTERED", "EmulatedPlugin"]


def __dir__() -> list[str]:
    return __all__


TABLE_DATE = "2026-11"
"""When the rows were compared with the published packages (P-64)."""


@dataclass(frozen=True, slots=True)
class EmulatedPlugin:
    """Hold one row of P-60."""

    namespace: str
    """The namespace, which is also the name of the built-in provider."""
    package: str
    """Normalised name of the published package."""
    versions: tuple[str, ...]
    """Its versions that the built-in provider agrees with."""
    endpoints: tuple[str, ...]
    """Effective ``plugin-api`` values that mean its plugin (P-7)."""


EMULATED_PLUGINS = (
    EmulatedPlugin(
        "nvidia",
        "nvidia-variant-provider",
        ("0.0.1", "0.0.2"),
        ("nvidia_variant_provider.plugin:NvidiaVariantPlugin",),
    ),
    EmulatedPlugin("x86_64", "x86-64-variant-provider", ("0.2.1",), ("x86_64_variant_provider",)),
    EmulatedPlugin(
        "x86_64",
        "provider-variant-x86-64",
        ("0.0.1.post2",),
        ("provider_variant_x86_64.plugin:X8664Plugin", "provider_variant_x86_64"),
    ),
    EmulatedPlugin(
        "aarch64", "aarch64-variant-provider", ("0.2.0",), ("aarch64_variant_provider",)
    ),
    EmulatedPlugin(
        "aarch64",
        "provider-variant-aarch64",
        ("0.0.1.post2", "0.0.3"),
        ("provider_variant_aarch64.plugin:AArch64Plugin", "provider_variant_aarch64"),
    ),
    EmulatedPlugin(
        "tpu",
        "tpu-variant-provider",
        ("0.1.0",),
        ("tpu_variant_provider.plugin:TpuVariantPlugin",),
    ),
    EmulatedPlugin(
        "amd",
        "amd-variant-provider",
        ("0.0.2",),
        ("amd_variant_provider.plugin:AMDVariantPlugin",),
    ),
    EmulatedPlugin(
        "amd",
        "rocm-bootstrap",
        ("0.3.0",),
        ("rocm_bootstrap.variant_provider:AMDVariantPlugin",),
    ),
    EmulatedPlugin(
        "intel",
        "intel-variant-provider",
        ("0.0.2", "0.0.3"),
        ("intel_variant_provider.plugin:IntelVariantPlugin",),
    ),
    EmulatedPlugin(
        "ascend",
        "huawei-ascend-variant-provider",
        ("0.0.2",),
        ("huawei_ascend_variant_provider.plugin:AscendVariantPlugin",),
    ),
    EmulatedPlugin(
        "ascend",
        "ascend-variant-provider",
        ("0.0.2",),
        ("ascend_variant_provider.plugin:AscendVariantPlugin",),
    ),
)
"""Every plugin that a built-in provider stands in for."""

UNREGISTERED = frozenset(
    {
        "aarch64-variant-provider",
        "amd-variant-provider",
        "tpu-variant-provider",
        "x86-64-variant-provider",
    }
)
"""Names of these that nobody had registered on PyPI at that date, so anybody could since (P-19)."""

HARDWARE = frozenset(plugin.namespace for plugin in EMULATED_PLUGINS)
"""Namespaces of hardware, of which a package cannot know what a machine has (P-20)."""
