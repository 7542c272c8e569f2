"""Read features of the processor from Windows: ``IsProcessorFeaturePresent`` (P-107).

The function covers few features, and returns false for all others.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from wheelfit_runtime.platforms.system_view import SystemView

NAME = "IsProcessorFeaturePresent"

_END = 96
"""The number after the last one queried; Windows 11 of 2025 has all below."""


def read(view: SystemView) -> frozenset[int] | None:
    """Return the numbers of the present features; None where it cannot be called."""
    if view.recorded_features is not None:
        return view.recorded_features
    if not view.is_real or sys.platform != "win32":
        return None
    import ctypes

    is_present = ctypes.WinDLL("kernel32").IsProcessorFeaturePresent
    return frozenset(number for number in range(_END) if is_present(number))


def parse(numbers: Collection[int], names: Mapping[int, tuple[str, ...]]) -> frozenset[str]:
    """Return the features by their Linux names."""
    return frozenset(name for number in numbers for name in names.get(number, ()))
