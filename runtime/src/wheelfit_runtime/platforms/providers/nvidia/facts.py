"""The facts that probes return about NVIDIA's GPUs and drivers, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.features import Evidence


class Capability(NamedTuple):
    """A compute capability; compares as numbers do."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """A usable GPU."""

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
        """The key of a kind of GPU, for code that does not run on all kinds."""
        return str(self.capability)


class NvidiaFiles(NamedTuple):
    """NVIDIA hardware and drivers as files alone list them (P-96)."""

    kernel_version: str | None = None
    """Version of the loaded kernel module, as ``550.54.15``; None when none is loaded."""
    control_device: bool = False
    wsl: bool = False
    """Whether this is Windows' Linux with a GPU passed through (``/dev/dxg``)."""
    jetson: bool = False
    """Whether this is a Jetson (``/etc/nv_tegra_release``)."""
    pci_devices: Mapping[str, str] = MappingProxyType({})
    """Kernel driver by PCI address of graphics devices made by NVIDIA; looked for only without
    NVIDIA's driver. Empty: no driver is bound, or none is known.
    """
    libraries: tuple[str, ...] = ()
    """Driver libraries that exist where a loader would look, as the machine names them."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def has_driver(self) -> bool:
        """Return whether there is a kernel-side driver."""
        return bool(self.kernel_version or self.control_device or self.wsl or self.jetson)

    @property
    def has_signs(self) -> bool:
        """Return whether starting a child process can find anything."""
        return self.has_driver or bool(self.pci_devices or self.libraries)


class NvidiaDriver(NamedTuple):
    """The report of the driver's libraries or of its tool."""

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
