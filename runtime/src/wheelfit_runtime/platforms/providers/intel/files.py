"""Detect Intel's GPUs by files, without a child process (P-133)."""
# Paths are text with "/" on every system, since they are those of the described machine.
# ruff: noqa: PTH110, PTH118

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.probes import pci_devices
from wheelfit_runtime.platforms.providers.intel import tables
from wheelfit_runtime.platforms.providers.intel.record import FAMILY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit_runtime.platforms.probes.pci_devices import PciDevice
    from wheelfit_runtime.platforms.providers.intel.tables import DeviceIp
    from wheelfit_runtime.platforms.system_view import SystemView

LOADER_NAMES = {"Linux": "libze_loader.so.1", "Windows": "ze_loader.dll"}
"""The names of the Level Zero loader, by system."""

_DXG = "/dev/dxg"
_NODES = "/dev/dri"
_RENDER_NODE = "renderD"


class IntelGpu(NamedTuple):
    """An Intel GPU that a driver lists."""

    number: int
    """Its index in the drivers' order."""
    name: str
    """Its product name; empty if unknown."""
    ip: DeviceIp
    integrated: bool = False

    def __str__(self) -> str:
        text = f"{self.name}, {self.ip}" if self.name else f"{self.ip}"
        return f"GPU {self.number} ({text})"


class IntelFiles(NamedTuple):
    """Intel's GPUs by files alone (P-133)."""

    bound: tuple[str, ...] = ()
    """PCI addresses of graphics devices with a driver that can compute."""
    unbound: tuple[str, ...] = ()
    """PCI addresses of the others."""
    hidden_nodes: tuple[str, ...] = ()
    """Device nodes of the bound ones, as ``/dev/dri/renderD128``, if all of them are missing."""
    older: bool = False
    """Whether all GPUs are older than Arc, without builds for them."""
    unlisted: bool = False
    """Whether there may be a GPU that no bus lists: on Windows, or WSL (``/dev/dxg``)."""
    libraries: tuple[str, ...] = ()
    """Paths of the Level Zero loader on the machine."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def has_signs(self) -> bool:
        """Whether Level Zero, if installed, may find a GPU."""
        return self.unlisted or (bool(self.bound) and not self.hidden_nodes)


class IntelDriver(NamedTuple):
    """The report of Level Zero."""

    gpus: tuple[IntelGpu, ...] = ()
    """The usable devices, in the drivers' order."""
    problem: str = ""
    """The reason there is none, one clause; empty if there is no fault."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang, error) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


class IntelSigns(NamedTuple):
    """The devices and libraries that files show."""

    devices: tuple[PciDevice, ...] = ()
    """Intel's graphics devices."""
    nodes: Mapping[str, bool] = MappingProxyType({})
    """Render nodes that the kernel lists for them, and whether each exists."""
    passed_through: bool = False
    """Whether this is WSL with a GPU passed through (``/dev/dxg``)."""
    libraries: tuple[str, ...] = ()


def read(view: SystemView) -> IntelSigns:
    """Return the signs; the loader is searched for only if there may be a GPU."""
    if view.system == "Windows":
        return IntelSigns(libraries=tuple(_existing(view, _windows_paths(view))))
    devices = tuple(
        device
        for device in pci_devices.of(view, FAMILY.pci_vendor)
        if device.base_class == pci_devices.DISPLAY
    )
    nodes: dict[str, bool] = {}
    for device in devices:
        if device.driver in tables.DRIVERS:
            nodes |= _nodes(view, device)
    passed_through = not devices and view.exists(_DXG)
    libraries: tuple[str, ...] = ()
    if passed_through or any(device.driver in tables.DRIVERS for device in devices):
        libraries = tuple(_existing(view, _linux_paths(view)))
    return IntelSigns(devices, nodes, passed_through, libraries)


def parse(signs: IntelSigns, system: str = "Linux") -> IntelFiles:
    """Return Intel's GPUs, with evidence."""
    bound = tuple(device for device in signs.devices if device.driver in tables.DRIVERS)
    hidden = () if any(signs.nodes.values()) else tuple(f"{_NODES}/{node}" for node in signs.nodes)
    evidence = [
        Evidence(
            f"{pci_devices.FOLDER}/{device.address}",
            f"vendor {device.vendor:#06x}, device {device.device:#06x}, "
            f"driver {device.driver or 'none'}",
        )
        for device in signs.devices
    ]
    evidence += [
        Evidence(f"{_NODES}/{node}", "exists" if exists else "missing")
        for node, exists in signs.nodes.items()
    ]
    text = "older than Arc, which builds are made for"
    evidence += [
        Evidence(f"{pci_devices.FOLDER}/{device.address}", text)
        for device in signs.devices
        if _is_older(device)
    ]
    if signs.passed_through:
        evidence.append(Evidence(_DXG, "exists"))
    evidence += [Evidence(library, "exists") for library in signs.libraries]
    return IntelFiles(
        bound=tuple(device.address for device in bound),
        unbound=tuple(device.address for device in signs.devices if device not in bound),
        hidden_nodes=hidden,
        older=bool(signs.devices) and all(map(_is_older, signs.devices)),
        unlisted=signs.passed_through or system == "Windows",
        libraries=signs.libraries,
        evidence=tuple(evidence),
    )


def candidates(view: SystemView, files: IntelFiles) -> tuple[str, ...]:
    """Return the libraries to try, in order, as paths or as names for the system's loader.

    The view's library folders exclude all others. For a captured machine no library of this one is
    returned.
    """
    name = LOADER_NAMES.get(view.system)
    if name is None:
        return ()
    if view.library_folders:
        candidate_paths = (os.path.join(folder, name) for folder in view.library_folders)
        return tuple(path for path in candidate_paths if os.path.exists(path))
    paths = [view.path(library) for library in files.libraries]
    if paths and view.is_real and view.system == "Linux":
        # The loader's own choice comes first, as in programs.
        paths.insert(0, name)
    return tuple(paths)


def no_driver_reason(files: IntelFiles) -> str:
    """Return the reason no driver can be queried, one clause; empty for GPUs older than Arc."""
    if files.older:
        return ""
    bound, unbound = ", ".join(files.bound), ", ".join(files.unbound)
    if files.hidden_nodes:
        start = f"there is an Intel GPU (PCI {bound}) without its device node "
        return f"{start}{', '.join(files.hidden_nodes)}; a container needs /dev/dri"
    if files.bound:
        start = f"there is an Intel GPU (PCI {bound}), but no Level Zero loader; "
        return f"{start}install Intel's compute runtime"
    if files.unbound:
        start = f"there is an Intel GPU (PCI {unbound}), but neither the i915 nor the xe "
        return f"{start}driver uses it"
    return ""


def _is_older(device: PciDevice) -> bool:
    # Number 0 is unknown.
    return bool(device.device) and device.device >> 8 in tables.OLDER_GRAPHICS


def _nodes(view: SystemView, device: PciDevice) -> dict[str, bool]:
    """Return the render nodes that the kernel lists for a device, and whether each exists."""
    return {
        name: view.exists(f"{_NODES}/{name}")
        for name in view.children(f"{pci_devices.FOLDER}/{device.address}/drm")
        if name.startswith(_RENDER_NODE)
    }


def _existing(view: SystemView, paths: Iterator[str]) -> Iterator[str]:
    return (path for path in dict.fromkeys(paths) if view.exists(path))


def _windows_paths(view: SystemView) -> Iterator[str]:
    system = view.environ.get("SYSTEMROOT", "C:\\Windows").replace("\\", "/")
    yield f"{system}/System32/{LOADER_NAMES['Windows']}"


def _linux_paths(view: SystemView) -> Iterator[str]:
    """Yield the possible paths of the loader, in the system's order."""
    name = LOADER_NAMES["Linux"]
    folders = view.environ.get("LD_LIBRARY_PATH", "").split(":")
    if view.is_real and view.interpreter:
        # An interpreter of conda searches its own folder of libraries.
        folders.append(os.path.realpath(view.interpreter).rpartition("/bin/")[0] + "/lib")
    folders += [
        f"/usr/lib/{view.architecture}-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
        "/run/opengl-driver/lib",  # NixOS
    ]
    for folder in folders:
        if folder.startswith("/"):
            yield f"{folder.rstrip('/')}/{name}"
    yield from view.loader_cache((name,))
