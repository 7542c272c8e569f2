"""Facts about 64-bit Arm processors from Linux and macOS (P-112, P-114)."""

from __future__ import annotations

import re
import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.facts import Core, Cpu
from wheelfit_runtime.platforms.probes import sysctl
from wheelfit_runtime.platforms.providers.aarch64 import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit_runtime.platforms.system_view import SystemView


# --- Linux's auxiliary vector, with the bits of CPU features --------------------------------------

AUXV = "/proc/self/auxv"
GETAUXVAL = "getauxval"
"""Function of the C library with the same values."""

_AT_HWCAP = 16
_AT_HWCAP2 = 26


@dataclass(frozen=True, slots=True)
class Hwcap:
    """The two words of CPU feature bits."""

    first: int
    """AT_HWCAP."""
    second: int
    """AT_HWCAP2; 0 if the kernel has none."""

    @property
    def names(self) -> frozenset[str]:
        """The names of the CPU features whose bits are set."""
        first = {name for bit, name in enumerate(tables.HWCAP_BITS) if self.first >> bit & 1}
        second = {name for bit, name in tables.HWCAP2_BITS.items() if self.second >> bit & 1}
        return frozenset(first | second)


def ask_library() -> bytes | None:
    """Return a vector with both words from the C library, for systems without ``/proc``."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        getauxval = ctypes.CDLL(None).getauxval
    except (OSError, AttributeError):
        return None
    getauxval.restype = ctypes.c_uint64
    getauxval.argtypes = (ctypes.c_ulong,)
    first = getauxval(_AT_HWCAP)
    return (
        struct.pack("<4Q", _AT_HWCAP, first, _AT_HWCAP2, getauxval(_AT_HWCAP2)) if first else None
    )


def parse_auxv(data: bytes) -> Hwcap | None:
    """Return HWCAP and HWCAP2 from a 64-bit little-endian vector.

    The kernel omits features that not every processor has (P-114).

    :param data: pairs of type and value, 8 bytes each; an incomplete last pair is ignored.
    """
    pairs = dict(struct.iter_unpack("<2Q", data[: len(data) // 16 * 16]))
    if _AT_HWCAP not in pairs:
        return None
    return Hwcap(pairs[_AT_HWCAP], pairs.get(_AT_HWCAP2, 0))


# --- the identification register of each core, where Linux shows it -------------------------------

CPU_FOLDER = "/sys/devices/system/cpu"
_PROCESSOR = re.compile(r"cpu[0-9]+")


def read_midr(view: SystemView) -> tuple[str, ...]:
    """Return the texts of all files ``cpu*/regs/identification/midr_el1``."""
    names = (
        f"{CPU_FOLDER}/{child}/regs/identification/midr_el1"
        for child in view.children(CPU_FOLDER)
        if _PROCESSOR.fullmatch(child)
    )
    texts = (view.read_text(name) for name in names)
    return tuple(text for text in texts if text)


def parse_midr(texts: Iterable[str]) -> tuple[Core, ...]:
    """Return the kinds of core, in ascending order; invalid texts are ignored.

    :param texts: hexadecimal numbers, such as ``0x00000000413fd0c1``.
    """
    cores = set()
    for text in texts:
        try:
            register = int(text, 16)
        except ValueError:
            continue
        cores.add(Core(register >> 24 & 0xFF, register >> 4 & 0xFFF))
    return tuple(sorted(cores))


# --- macOS ----------------------------------------------------------------------------------------

_PREFIX = "hw.optional."
MACOS_NAMES: tuple[str, ...] = (sysctl.BRAND, *(_PREFIX + name for name in tables.MACOS_FLAGS))


def parse_macos(answers: Mapping[str, bytes]) -> Cpu:
    """Return the processor by the names below ``hw.optional`` and the brand name."""
    flags = {
        flag
        for name, names in tables.MACOS_FLAGS.items()
        if sysctl.is_on(answers, _PREFIX + name)
        for flag in names
    }
    return Cpu(
        flags=frozenset(flags) or None,
        brand=sysctl.text(answers, sysctl.BRAND),
        evidence=sysctl.evidence(answers),
    )
