"""The platforms and Pythons that presets and locks are for."""

from __future__ import annotations

from typing import Final, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class PlatformRow(NamedTuple):
    """One platform."""

    system: str
    """``Linux``, ``Darwin`` or ``Windows``."""
    architecture: str
    """Its name in providers: ``x86_64``, ``aarch64``."""
    library: str
    """The library its wheels depend on: ``glibc``, ``musl``, ``macos``, or empty."""
    version: str
    """The default version of that library."""
    processor: str
    """The name of its lowest processor in presets."""
    description: str


_GLIBC = "2.28"  # of manylinux_2_28, the oldest that new wheels are built for
_MUSL = "1.2"
_MACOS = "14.0"

PLATFORMS: Mapping[str, PlatformRow] = {
    "linux-x86_64": PlatformRow(
        "Linux", "x86_64", "glibc", _GLIBC, "x86_64-v1", f"Linux with glibc {_GLIBC}"
    ),
    "linux-aarch64": PlatformRow(
        "Linux", "aarch64", "glibc", _GLIBC, "aarch64", f"64-bit Arm Linux with glibc {_GLIBC}"
    ),
    "musllinux-x86_64": PlatformRow(
        "Linux", "x86_64", "musl", _MUSL, "x86_64-v1", f"Alpine Linux and others, musl {_MUSL}"
    ),
    "musllinux-aarch64": PlatformRow(
        "Linux", "aarch64", "musl", _MUSL, "aarch64", f"the same on 64-bit Arm, musl {_MUSL}"
    ),
    "macos-arm64": PlatformRow(
        "Darwin", "aarch64", "macos", _MACOS, "apple-m1", f"macOS {_MACOS} on Apple silicon"
    ),
    "macos-x86_64": PlatformRow(
        "Darwin", "x86_64", "macos", _MACOS, "x86_64-v1", f"macOS {_MACOS} on Intel"
    ),
    "windows-x86_64": PlatformRow("Windows", "x86_64", "", "", "x86_64-v1", "Windows"),
    "windows-arm64": PlatformRow("Windows", "aarch64", "", "", "aarch64", "Windows on Arm"),
}


# As of 2026-11, by the releases of CPython.
PYTHONS: Final[Mapping[tuple[int, int], int]] = {
    (3, 9): 25,
    (3, 10): 22,
    (3, 11): 18,
    (3, 12): 16,
    (3, 13): 18,
    (3, 14): 10,
    (3, 15): 2,
}
"""By minor version, the micro version that markers are evaluated with."""

PLATFORMS_OF_LOCKS: Final = ("linux-x86_64", "linux-aarch64", "macos-arm64", "windows-x86_64")
"""The default platforms of a lock."""

GLIBC_OF_LOCKS: Final = "2.35"
"""The newest glibc that locked wheels may need: that of Ubuntu 22.04. Wheels for older ones are
locked too; 2.28 would exclude projects whose oldest wheels need more."""
