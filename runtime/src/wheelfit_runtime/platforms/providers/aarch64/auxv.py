"""Read the auxiliary vector, in which Linux hands a process its HWCAP bits."""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.providers.aarch64 import tables

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.system_view import SystemView

PATH = "/proc/self/auxv"
LIBRARY = "getauxval"
"""Function of the C library that tells the same."""

_AT_HWCAP = 16
_AT_HWCAP2 = 26


@dataclass(frozen=True, slots=True)
class Hwcap:
    """The two words of ability bits."""

    first: int
    """AT_HWCAP."""
    second: int
    """AT_HWCAP2; 0 where the kernel has none."""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the 64-bit Arm abilities whose bits are set."""
        first = {name for bit, name in enumerate(tables.HWCAP_BITS) if self.first >> bit & 1}
        second = {name for bit, name in tables.HWCAP2_BITS.items() if self.second >> bit & 1}
        return frozenset(first | second)


def read(surroundings: SystemView) -> bytes | None:
    """Return the raw vector, or None when it cannot be read."""
    return surroundings.read_bytes(PATH)


def ask_library() -> bytes | None:
    """Return both words as such a vector, by the C library of this process; None without one.

    For systems on which ``/proc`` is not there.
    """
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: PLC0415 - few machines come here

    try:
        ask = ctypes.CDLL(None).getauxval
    except (OSError, AttributeError):
        return None
    ask.restype = ctypes.c_uint64
    ask.argtypes = (ctypes.c_ulong,)
    first = ask(_AT_HWCAP)
    return struct.pack("<4Q", _AT_HWCAP, first, _AT_HWCAP2, ask(_AT_HWCAP2)) if first else None


def parse(data: bytes) -> Hwcap | None:
    """Take HWCAP and HWCAP2 out of a 64-bit little-endian vector.

    The kernel has already left out what not every processor can do (P-114).

    :param data: pairs of type and value, 8 bytes each; a torn end is ignored.
    """
    pairs = dict(struct.iter_unpack("<2Q", data[: len(data) // 16 * 16]))
    if _AT_HWCAP not in pairs:
        return None
    return Hwcap(pairs[_AT_HWCAP], pairs.get(_AT_HWCAP2, 0))
