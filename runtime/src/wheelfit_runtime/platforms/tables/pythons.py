"""Which Pythons a lock is made for when only their minor versions are named."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

DATA_VERSION = "2026-11"
"""When this was last compared with the releases of CPython."""

PYTHONS: Final = MappingProxyType(
    {
        (3, 9): 25,
        (3, 10): 22,
        (3, 11): 18,
        (3, 12): 16,
        (3, 13): 18,
        (3, 14): 10,
        (3, 15): 2,
    }
)
"""By minor version the micro version that stands for all of its series in markers."""

PLATFORMS_OF_LOCKS: Final = ("linux-x86_64", "linux-aarch64", "macos-arm64", "windows-x86_64")
"""Rows of presets that a lock is for when none is named."""

GLIBC_OF_LOCKS: Final = "2.35"
"""The newest glibc that locked wheels may want: that of Ubuntu 22.04 and later. Wheels for older
ones fit too and are listed beside; 2.28 would leave projects out that build on nothing older."""
