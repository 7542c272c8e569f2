"""The facts that probes return about NVIDIA's GPUs and drivers, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.features import Evidence


class Capability(NamedTuple):
    """A compute capability, or a CUDA version; compared by its numbers."""

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
    """Its product name; empty if unknown."""
    capability: Capability
    uuid: str = ""
    """Its identifier, such as ``GPU-…``; empty if unknown."""
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
    """The signs of NVIDIA's hardware and drivers in files alone (P-96)."""

    kernel_version: str | None = None
    """Version of the loaded kernel module, such as ``550.54.15``; None if none is loaded."""
    control_device: bool = False
    """Whether the device file ``/dev/nvidiactl`` exists."""
    wsl: bool = False
    """Whether this is WSL with a GPU passed through (``/dev/dxg``)."""
    jetson: bool = False
    """Whether this is a Jetson (``/etc/nv_tegra_release``)."""
    pci_devices: Mapping[str, str] = MappingProxyType({})
    """By PCI address of NVIDIA's graphics devices, the kernel driver, which may be empty; read only
    if there is no sign of NVIDIA's driver.
    """
    libraries: tuple[str, ...] = ()
    """Paths of driver libraries in the loader's folders on the machine."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def has_driver(self) -> bool:
        """Whether there is a kernel module."""
        return bool(self.kernel_version or self.control_device or self.wsl or self.jetson)

    @property
    def has_signs(self) -> bool:
        """Whether any sign was found, so that a child process may find a driver."""
        return self.has_driver or bool(self.pci_devices or self.libraries)


class NvidiaDriver(NamedTuple):
    """The report of the driver's libraries or of its tool."""

    cuda_version: Capability | None = None
    """Highest CUDA version of the user-mode driver, as 12.4; None if unknown."""
    driver_version: str | None = None
    """Version of the driver release, such as ``550.54.15``."""
    gpus: tuple[NvidiaGpu, ...] = ()
    """The usable devices, in the driver's order."""
    problem: str = ""
    """The reason the driver cannot be used, one clause; empty if it can."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang, mismatch) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()
