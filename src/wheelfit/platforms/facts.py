"""What probes bring home, as frozen records; no probe and no opinion here.

Most are named tuples: every detection loads all of them, and a data class takes several times
as long to make.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.platforms.features import Evidence

__all__ = [
    "AmdDriver",
    "AmdGpu",
    "AscendCard",
    "AscendDriver",
    "AscendFiles",
    "Capability",
    "Core",
    "Cpu",
    "CpuidRegisters",
    "CpuidTable",
    "DeviceIp",
    "IntelDriver",
    "IntelFiles",
    "IntelGpu",
    "KfdTopology",
    "NvidiaDriver",
    "NvidiaFiles",
    "NvidiaGpu",
    "TpuChip",
    "TpuFiles",
]


def __dir__() -> list[str]:
    return __all__


# --- processors ------------------------------------------------------------------


class Core(NamedTuple):
    """Name one kind of 64-bit Arm core, as its main identification register does."""

    implementer: int
    """Who designed it, as 0x41 for Arm."""
    part: int
    """Which design, as 0xd0c for Neoverse N1."""

    def __str__(self) -> str:
        return f"0x{self.implementer:02x}/0x{self.part:03x}"


class Cpu(NamedTuple):
    """Hold what is known about the processors a process may run on."""

    flags: frozenset[str] | None = None
    """Abilities by their Linux names, present on every processor; None: could not be found out."""
    cores: tuple[Core, ...] = ()
    """The different kinds of core, in ascending order; empty when unknown or not Arm."""
    brand: str = ""
    """The name the maker gave it, as ``Apple M2``; empty when unknown."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


class CpuidRegisters(NamedTuple):
    """Hold the four registers that one CPUID leaf fills, 32 bits each."""

    eax: int
    ebx: int
    ecx: int
    edx: int


@dataclass(frozen=True, slots=True)
class CpuidTable:
    """Hold recorded answers of the CPUID instruction (P-107)."""

    leaves: Mapping[tuple[int, int], CpuidRegisters]
    """By leaf and subleaf; what the processor does not have is absent."""
    xcr0: int | None = None
    """Which register states the system saves; None when it does not say (OSXSAVE is clear)."""


# --- NVIDIA ------------------------------------------------------------------------


class Capability(NamedTuple):
    """Hold a compute capability; compares as numbers do."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """Hold one usable GPU."""

    index: int
    """Its number in the driver's order."""
    name: str
    """Its product name; empty when unknown."""
    capability: Capability
    uuid: str = ""
    """Its identifier, as ``GPU-…``; empty when unknown."""
    mig: bool = False
    """Whether it is split into instances; they have the capability of the whole."""

    def __str__(self) -> str:
        parts = (self.name, str(self.capability), "MIG" if self.mig else "")
        return f"GPU {self.index} ({', '.join(filter(None, parts))})"

    @property
    def kind(self) -> str:
        """What tells GPUs apart that code does not run on alike."""
        return str(self.capability)


class NvidiaFiles(NamedTuple):
    """Hold what files alone say about NVIDIA hardware and drivers (P-96)."""

    kernel_version: str | None = None
    """Version of the loaded kernel module, as ``550.54.15``; None when none is loaded."""
    control_device: bool = False
    """Whether ``/dev/nvidiactl`` exists."""
    wsl: bool = False
    """Whether this is Windows' Linux with a GPU passed through (``/dev/dxg``)."""
    jetson: bool = False
    """Whether this is a Jetson (``/etc/nv_tegra_release``)."""
    pci_devices: Mapping[str, str] = MappingProxyType({})
    """Kernel driver by PCI address of graphics devices made by NVIDIA; looked for only
    without NVIDIA's driver. Empty: no driver is bound, or none is told."""
    libraries: tuple[str, ...] = ()
    """Driver libraries that exist where a loader would look, as the machine names them."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def has_driver(self) -> bool:
        """Say whether a kernel-side driver is there."""
        return bool(self.kernel_version or self.control_device or self.wsl or self.jetson)

    @property
    def is_worth_asking(self) -> bool:
        """Say whether starting a child process can bring anything."""
        return self.has_driver or bool(self.pci_devices or self.libraries)


class NvidiaDriver(NamedTuple):
    """Hold what the driver's libraries, or its tool, say."""

    cuda_version: Capability | None = None
    """Highest CUDA version of the user-mode driver, as 12.4; None when not found out."""
    driver_version: str | None = None
    """Version of the driver release, as ``550.54.15``."""
    gpus: tuple[NvidiaGpu, ...] = ()
    """The usable devices, in the driver's order."""
    problem: str = ""
    """Why the driver cannot be used, one clause; empty when it can."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang, mismatch) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


# --- Intel -------------------------------------------------------------------------


class DeviceIp(NamedTuple):
    """Hold the version of a GPU's design; compares as numbers do (P-133)."""

    architecture: int
    release: int
    revision: int

    def __str__(self) -> str:
        return f"{self.architecture}.{self.release}.{self.revision}"


class IntelGpu(NamedTuple):
    """Hold one GPU of Intel's that a driver shows."""

    number: int
    """Its place in the drivers' order, from 0."""
    name: str
    """Its product name; empty when unknown."""
    ip: DeviceIp
    integrated: bool = False
    """Whether it is a part of the processor."""

    def __str__(self) -> str:
        words = f"{self.name}, {self.ip}" if self.name else f"{self.ip}"
        return f"GPU {self.number} ({words})"


class IntelFiles(NamedTuple):
    """Hold what files alone say about Intel's GPUs (P-133)."""

    bound: tuple[str, ...] = ()
    """PCI addresses of graphics devices that a driver has which can compute."""
    unbound: tuple[str, ...] = ()
    """PCI addresses of the others."""
    hidden_nodes: tuple[str, ...] = ()
    """Device nodes of the bound ones, as ``/dev/dri/renderD128``, if there is none of them."""
    unlisted: bool = False
    """Whether a GPU may be there that no bus lists: Windows, or its Linux (``/dev/dxg``)."""
    libraries: tuple[str, ...] = ()
    """Where the Level Zero loader lies, as the machine names it."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_worth_asking(self) -> bool:
        """Say whether a loader, if there is one, can bring anything."""
        return self.unlisted or (bool(self.bound) and not self.hidden_nodes)


class IntelDriver(NamedTuple):
    """Hold what Level Zero says."""

    gpus: tuple[IntelGpu, ...] = ()
    """The usable devices, in the drivers' order."""
    problem: str = ""
    """Why there is none, one clause; empty when nothing is wrong."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang, error) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


# --- Google ------------------------------------------------------------------------


class TpuChip(NamedTuple):
    """Hold one TPU on the bus."""

    address: str
    """As ``0000:00:05.0``."""
    device: int
    """As 0x0063."""
    generation: str
    """As ``v5e``; empty when it has no public name."""


class TpuFiles(NamedTuple):
    """Hold what files say about TPUs (P-151)."""

    chips: tuple[TpuChip, ...] = ()
    nodes: tuple[str, ...] = ()
    """Device nodes through which programs reach them, as ``/dev/accel0``."""
    evidence: tuple[Evidence, ...] = ()


# --- AMD ---------------------------------------------------------------------------


class AmdGpu(NamedTuple):
    """Hold one GPU that the kernel or a tool lists."""

    node: int
    """Number of its node among the kernel's, or its place in a tool's list."""
    name: str
    """Which code it runs, as ``gfx942``; empty when nobody says."""
    integrated: bool = False
    """Whether it shares a chip with a processor."""
    problem: str = ""
    """Why it cannot be used here, one clause; empty when it can."""

    def __str__(self) -> str:
        words = f"{self.name}, integrated" if self.integrated else self.name
        return f"GPU at node {self.node} ({words})" if words else f"GPU at node {self.node}"


class KfdTopology(NamedTuple):
    """Hold what AMD's compute driver in the kernel says (P-124)."""

    is_listed: bool = False
    """Whether there is a list of nodes at all; processors are nodes too."""
    gpus: tuple[AmdGpu, ...] = ()
    """Those that can be used and those that cannot, in the order of the nodes."""
    evidence: tuple[Evidence, ...] = ()


class AmdDriver(NamedTuple):
    """Hold what files, or else AMD's tools, say of GPUs and ROCm."""

    gpus: tuple[AmdGpu, ...] = ()
    """Those that can be used and those that cannot, in the order of the nodes."""
    rocm_version: tuple[int, int] | None = None
    """Major and minor of the installed ROCm; None when none was found."""
    problem: str = ""
    """Why no tool could be asked, one clause; empty when none had to be, or one answered."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


# --- Huawei Ascend -----------------------------------------------------------------


class AscendCard(NamedTuple):
    """Hold one NPU."""

    number: int
    """Its number in the tool's order, or its place on the bus."""
    chip: str
    """What the tool calls it, in lower case and without ``ascend``, as ``910b3``."""

    def __str__(self) -> str:
        return f"NPU {self.number} ({self.chip})"


class AscendFiles(NamedTuple):
    """Hold what files alone say about NPUs and their driver (P-143)."""

    devices: tuple[int, ...] = ()
    """PCI device numbers of the NPUs, as 0xd802, in the order of their addresses."""
    nodes: tuple[str, ...] = ()
    """Device nodes through which programs reach NPUs, as ``/dev/davinci0``."""
    driver_version: str | None = None
    """As the driver's file spells it, as ``24.1.rc3``."""
    evidence: tuple[Evidence, ...] = ()


class AscendDriver(NamedTuple):
    """Hold what files, or else Huawei's tool, say of NPUs, driver and CANN."""

    cards: tuple[AscendCard, ...] = ()
    """The usable NPUs, in the driver's order."""
    driver_version: str | None = None
    """As its source spells it."""
    cann_version: str | None = None
    """As its source spells it."""
    problem: str = ""
    """Why NPUs or their types could not be found out, one clause; empty when they were."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()
