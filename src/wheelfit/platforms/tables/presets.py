"""What presets of machines are made of: platforms, processors and accelerators.

A preset is a combination of rows; there is no list of combinations. What follows from a
row is computed by the providers, so nothing here names a supported value.
"""
# ruff: noqa: SIM905  # long lists of words are easier to compare with their source as text

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from wheelfit.platforms.facts import Core, Cpu
from wheelfit.platforms.families.aarch64 import tables as aarch64
from wheelfit.platforms.families.amd import tables as amd
from wheelfit.platforms.families.ascend import tables as ascend
from wheelfit.platforms.families.intel import tables as intel
from wheelfit.platforms.families.nvidia import tables as nvidia
from wheelfit.platforms.families.nvidia.facts import Capability
from wheelfit.platforms.families.tpu import tables as tpu
from wheelfit.platforms.families.x86_64 import tables as x86_64
from wheelfit.platforms.tables.platforms import PLATFORMS, PlatformRow

__all__ = [
    "CUDA_NEWEST",
    "DATA_VERSION",
    "FAMILIES",
    "FIRST_ROCM",
    "GFX",
    "INTEL",
    "NPUS",
    "NVIDIA",
    "PLATFORMS",
    "PROCESSORS",
    "ROCM",
    "TPUS",
    "Family",
    "NvidiaRow",
    "PlatformRow",
    "ProcessorRow",
]


def __dir__() -> list[str]:
    return __all__


DATA_VERSION = "2026-11"
"""When these tables were last compared with their sources."""


# --- processors ----------------------------------------------------------------------


class ProcessorRow(NamedTuple):
    """Hold one processor."""

    architecture: str
    cpu: Cpu
    """The facts a provider would have found out."""
    words: str


def _level(number: int) -> frozenset[str]:
    """Return the flags of an x86-64 level (psABI), those of the lower ones included."""
    flags = frozenset("mmx sse sse2".split())
    for _, added in x86_64.LEVELS[:number]:
        flags |= added
    return flags | frozenset(["xsave"]) if number >= 3 else flags


def _arm(version: str) -> Cpu:
    """Return a processor that has what a version of the architecture needs, and no more."""
    names = [name for name, _ in aarch64.REQUIREMENTS]
    flags = frozenset(["fp", "asimd"])
    for _, added in aarch64.REQUIREMENTS[: names.index(version) + 1]:
        flags |= added
    # From 8.5 on the bits alone do not tell (P-113): a Neoverse N2 is known to be one.
    cores = (Core(0x41, 0xD49),) if names.index(version) > names.index("8.4a") else ()
    return Cpu(flags, cores)


# What macOS 12 tells of it; later releases tell of one ability more.
_APPLE_M1 = Cpu(
    frozenset(
        """
        aes asimd asimddp asimdfhm asimdhp asimdrdm atomics crc32 dcpodp dcpop ecv fcma flagm
        flagm2 fp fphp frint ilrcpc jscvt lrcpc paca pacg pmull sb sha1 sha2 sha3 sha512 ssbs uscat
        """.split()
    ),
    brand="Apple M1",
)

PROCESSORS: MappingProxyType[str, ProcessorRow] = MappingProxyType(
    {
        "x86_64-v1": ProcessorRow("x86_64", Cpu(_level(1)), "any x86-64 processor"),
        "x86_64-v2": ProcessorRow("x86_64", Cpu(_level(2)), "x86-64 level v2 (Nehalem, 2008)"),
        "x86_64-v3": ProcessorRow("x86_64", Cpu(_level(3)), "x86-64 level v3 (Haswell, 2013; Zen)"),
        "x86_64-v4": ProcessorRow(
            "x86_64", Cpu(_level(4)), "x86-64 level v4 (Skylake-SP, 2017; Zen 4)"
        ),
        "aarch64": ProcessorRow("aarch64", _arm("8a"), "any 64-bit Arm processor"),
        "aarch64-8.1a": ProcessorRow("aarch64", _arm("8.1a"), "Armv8.1 (ThunderX2)"),
        "aarch64-8.2a": ProcessorRow("aarch64", _arm("8.2a"), "Armv8.2 (Neoverse N1, Graviton 2)"),
        "aarch64-8.3a": ProcessorRow("aarch64", _arm("8.3a"), "Armv8.3"),
        "aarch64-8.4a": ProcessorRow("aarch64", _arm("8.4a"), "Armv8.4 (Neoverse V1, Graviton 3)"),
        "aarch64-8.5a": ProcessorRow("aarch64", _arm("8.5a"), "Armv8.5"),
        "aarch64-9.0a": ProcessorRow(
            "aarch64", _arm("9.0a"), "Armv9.0 (Neoverse V2, Graviton 4, Grace)"
        ),
        "apple-m1": ProcessorRow("aarch64", _APPLE_M1, "Apple M1"),
    }
)


# --- accelerators --------------------------------------------------------------------


class Family(NamedTuple):
    """Hold where the accelerators of one maker can be."""

    namespace: str
    platforms: tuple[str, ...]
    """Rows of `PLATFORMS`; the first is meant when none is named."""


FAMILIES: MappingProxyType[str, Family] = MappingProxyType(
    {
        "cuda": Family("nvidia", ("linux-x86_64", "linux-aarch64", "windows-x86_64")),
        "rocm": Family("amd", ("linux-x86_64", "windows-x86_64")),
        "intel": Family("intel", ("linux-x86_64", "windows-x86_64")),
        "ascend": Family("ascend", ("linux-x86_64", "linux-aarch64")),
        "tpu": Family("tpu", ("linux-x86_64",)),
    }
)

CUDA_NEWEST: MappingProxyType[int, int] = MappingProxyType(
    {toolkit.major: toolkit.minor for toolkit in sorted(nvidia.PTX_OF_TOOLKIT)}
)
"""By CUDA major the newest minor; of the last major newer ones are to be expected."""


class NvidiaRow(NamedTuple):
    """Hold one kind of NVIDIA GPU."""

    first: Capability
    """CUDA version of the first driver that knows it; 11.0 for what is older."""
    last: Capability | None
    """CUDA version of the last driver that knows it; None while new ones do."""
    words: str
    arm_only: bool
    """Whether it shares a chip or a board with an Arm processor."""


# Drivers of release 580, for CUDA 13.0, are the last for GPUs before Turing.
_NVIDIA: tuple[tuple[str, str, str, str], ...] = (
    ("5.0", "11.0", "13.0", "GTX 750"),
    ("5.2", "11.0", "13.0", "GTX 980, Tesla M40"),
    ("5.3", "11.0", "10.2", "Jetson Nano"),
    ("6.0", "11.0", "13.0", "P100"),
    ("6.1", "11.0", "13.0", "GTX 1080, P4, P40"),
    ("6.2", "11.0", "10.2", "Jetson TX2"),
    ("7.0", "11.0", "13.0", "V100"),
    ("7.2", "11.4", "12.2", "Jetson Xavier"),
    ("7.5", "11.0", "", "T4, RTX 20"),
    ("8.0", "11.0", "", "A100, A30"),
    ("8.6", "11.1", "", "A10, A40, RTX 30"),
    ("8.7", "11.4", "", "Jetson Orin"),
    ("8.9", "11.8", "", "L4, L40, RTX 40"),
    ("9.0", "11.8", "", "H100, H200, GH200"),
    ("10.0", "12.8", "", "B200, GB200"),
    ("10.1", "12.8", "12.9", "Jetson Thor, as CUDA 12 calls it"),
    ("10.3", "12.9", "", "B300, GB300"),
    ("10.7", "13.4", "", "Rubin"),
    ("11.0", "13.0", "", "Jetson Thor"),
    ("12.0", "12.8", "", "RTX 50, RTX PRO 6000"),
    ("12.1", "12.9", "", "DGX Spark (GB10)"),
)
_SPARK = Capability(12, 1)


def _capability(text: str) -> Capability:
    major, minor = map(int, text.split("."))
    return Capability(major, minor)


NVIDIA: MappingProxyType[Capability, NvidiaRow] = MappingProxyType(
    {
        _capability(capability): NvidiaRow(
            _capability(first),
            _capability(last) if last else None,
            words,
            _capability(capability) in {*nvidia.TEGRA, _SPARK},
        )
        for capability, first, last, words in _NVIDIA
    }
)

_GFX_WORDS: MappingProxyType[str, str] = MappingProxyType(
    {
        "gfx900": "Vega 56, Vega 64, MI25",
        "gfx906": "MI50, MI60, Radeon VII",
        "gfx908": "MI100",
        "gfx90a": "MI210, MI250",
        "gfx942": "MI300A, MI300X, MI325X",
        "gfx950": "MI350X, MI355X",
        "gfx1030": "RX 6800, RX 6900",
        "gfx1100": "RX 7900, PRO W7900",
        "gfx1101": "RX 7700, RX 7800",
        "gfx1102": "RX 7600",
        "gfx1150": "Ryzen AI 300 (Strix Point)",
        "gfx1151": "Ryzen AI Max (Strix Halo)",
        "gfx1200": "RX 9060",
        "gfx1201": "RX 9070",
    }
)
GFX: MappingProxyType[str, str] = MappingProxyType(
    {name: _GFX_WORDS.get(name, "") for name in (*amd.PUBLISHED_GFX, *amd.APPENDED_GFX)}
)
"""Every known name of an AMD GPU, with products where they are well known."""
FIRST_ROCM: MappingProxyType[str, str] = MappingProxyType(
    {"gfx942": "6.0", "gfx950": "7.0", "gfx1200": "6.4", "gfx1201": "6.4"}
)
"""The first release of ROCm that supports a GPU, where AMD's notes on releases name one."""
ROCM: tuple[str, ...] = (*amd.PUBLISHED_ROCM, *amd.APPENDED_ROCM)
"""Every known release of ROCm, newest first."""

_INTEL_NAMES: MappingProxyType[str, str] = MappingProxyType(
    {
        "arc-a770": "acm-g10",
        "arc-a750": "acm-g10",
        "arc-a380": "acm-g11",
        "arc-b580": "bmg-g21",
        "arc-b570": "bmg-g21",
        "arc-140v": "lnl-m",
        "max-1100": "pvc",
        "max-1550": "pvc",
        "flex-140": "ats-m75",
        "flex-170": "ats-m150",
    }
)
_INTEL_IPS = {name: str(ip) for ip, names in intel.DEVICES.items() for name in names}
INTEL: MappingProxyType[str, str] = MappingProxyType(
    {
        **{product: _INTEL_IPS[name] for product, name in _INTEL_NAMES.items()},
        **_INTEL_IPS,
        **{value: value for value in intel.VALUES},
    }
)
"""Version of the graphics design by product, by name and by itself."""

NPUS: Final = (*ascend.PUBLISHED_TYPES, *ascend.APPENDED_TYPES)
"""Every known type of an Ascend NPU."""

TPUS: Final = tpu.GENERATIONS
"""Every known generation of TPUs."""
