"""Platforms that presets and locks are made for; apart, as locks need none of the hardware."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple


class PlatformRow(NamedTuple):
    """One platform."""

    system: str
    """``Linux``, ``Darwin`` or ``Windows``."""
    architecture: str
    """As providers call it: ``x86_64``, ``aarch64``."""
    library: str
    """What its wheels depend on: ``glibc``, ``musl``, ``macos``, or nothing."""
    version: str
    """Version of that, unless another is asked for."""
    processor: str
    """Row of the least processor that there can be."""
    words: str


_GLIBC = "2.28"  # of manylinux_2_28, the oldest that new wheels are built for
_MUSL = "1.2"
_MACOS = "14.0"

PLATFORMS: MappingProxyType[str, PlatformRow] = MappingProxyType(
    {
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
)
