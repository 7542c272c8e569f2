"""What is known about NVIDIA's drivers, toolkits and GPUs (P-80 to P-95)."""

from __future__ import annotations

from types import MappingProxyType

from wheelfit.platforms.facts import Capability

__all__ = [
    "CUDA_CODE_FLOOR",
    "DATA_VERSION",
    "DRIVER_FLOOR",
    "PTX_OF_TOOLKIT",
    "SM_FAMILIES",
]


def __dir__() -> list[str]:
    return __all__


DATA_VERSION = "2026-11"
"""When these tables were last compared with their sources."""

# P-90: devices that run family code ("f"); directional, never extrapolated.
SM_FAMILIES: MappingProxyType[Capability, frozenset[Capability]] = MappingProxyType(
    {
        Capability(10, 0): frozenset({Capability(10, 0), Capability(10, 3), Capability(10, 7)}),
        Capability(10, 3): frozenset({Capability(10, 3), Capability(10, 7)}),
        Capability(10, 7): frozenset({Capability(10, 7)}),
        Capability(11, 0): frozenset({Capability(11, 0)}),
        Capability(12, 0): frozenset({Capability(12, 0), Capability(12, 1)}),
        Capability(12, 1): frozenset({Capability(12, 1)}),
    }
)

# P-91: PTX version by the CUDA toolkit that first writes it (measured from compiler output).
PTX_OF_TOOLKIT: MappingProxyType[Capability, Capability] = MappingProxyType(
    {
        Capability(11, 8): Capability(7, 8),
        Capability(12, 5): Capability(8, 5),
        Capability(12, 6): Capability(8, 5),
        Capability(12, 8): Capability(8, 7),
        Capability(12, 9): Capability(8, 8),
        Capability(13, 0): Capability(9, 0),
        Capability(13, 5): Capability(9, 5),
    }
)

# P-92: oldest driver release by CUDA major: Linux, Windows.
DRIVER_FLOOR: MappingProxyType[int, tuple[str, str]] = MappingProxyType(
    {11: ("450.80.02", "452.39"), 12: ("525.60.13", "528.33"), 13: ("580", "580")}
)

# P-95: oldest capability each toolkit major compiles for.
CUDA_CODE_FLOOR: MappingProxyType[int, Capability] = MappingProxyType(
    {11: Capability(3, 5), 12: Capability(5, 0), 13: Capability(7, 5)}
)
