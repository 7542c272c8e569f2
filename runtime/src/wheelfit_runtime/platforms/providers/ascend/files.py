"""Look for Huawei's NPUs and their driver in files, without starting anything (P-143)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.probes import pci_devices
from wheelfit_runtime.platforms.providers.ascend.record import FAMILY

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.probes.pci_devices import PciDevice
    from wheelfit_runtime.platforms.system_view import SystemView

DRIVER = "/usr/local/Ascend/driver/version.info"
MANAGER = "/dev/davinci_manager"
"""Through which the driver is asked; there as soon as it is loaded."""

# Compiled where they are needed: most machines have nothing to match.
_NODE = r"v?davinci[0-9]{1,4}"
_VERSION = r"(?m)^Version=(\S+)\s*$"


class AscendCard(NamedTuple):
    """An NPU."""

    number: int
    """Its number in the tool's order, or its place on the bus."""
    chip: str
    """What the tool calls it, in lower case and without ``ascend``, as ``910b3``."""

    def __str__(self) -> str:
        return f"NPU {self.number} ({self.chip})"


class AscendFiles(NamedTuple):
    """NPUs and their driver as files alone list them (P-143)."""

    devices: tuple[int, ...] = ()
    """PCI device numbers of the NPUs, as 0xd802, in the order of their addresses."""
    nodes: tuple[str, ...] = ()
    """Device nodes through which programs reach NPUs, as ``/dev/davinci0``."""
    driver_version: str | None = None
    """As the driver's file spells it, as ``24.1.rc3``."""
    evidence: tuple[Evidence, ...] = ()


class AscendDriver(NamedTuple):
    """NPUs, driver and CANN as files, or else Huawei's tool, list them."""

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


class AscendSigns(NamedTuple):
    """What is there, as the files say it."""

    devices: tuple[PciDevice, ...]
    """Huawei's processing accelerators on the bus, in the order of their addresses."""
    nodes: tuple[str, ...]
    """Device nodes, that of the driver among them."""
    driver: str | None
    """What the driver's file says; None when it cannot be read."""


def read(surroundings: SystemView) -> AscendSigns:
    """Return devices on the bus, device nodes, and the driver's file."""
    devices = tuple(
        device
        for device in pci_devices.of(surroundings, FAMILY.pci_vendor)
        if device.base_class == pci_devices.ACCELERATOR
    )
    names = [
        f"/dev/{name}"
        for name in surroundings.children("/dev")
        if "davinci" in name and re.fullmatch(_NODE, name)
    ]
    nodes = (*sorted(names, key=lambda name: (len(name), name)), MANAGER)
    found = tuple(name for name in nodes if surroundings.exists(name))
    return AscendSigns(devices, found, surroundings.read_text(DRIVER))


def parse(signs: AscendSigns) -> AscendFiles:
    """Sort the signs."""
    version = re.search(_VERSION, signs.driver) if signs.driver else None
    evidence = [
        Evidence(
            f"{pci_devices.FOLDER}/{device.address}", f"NPU {device.vendor:04x}:{device.device:04x}"
        )
        for device in signs.devices
    ]
    evidence += [Evidence(name, "exists") for name in signs.nodes]
    if signs.driver is not None:
        evidence.append(Evidence(DRIVER, version[0].strip() if version else "says no version"))
    return AscendFiles(
        devices=tuple(device.device for device in signs.devices),
        nodes=tuple(name for name in signs.nodes if name != MANAGER),
        driver_version=version[1] if version else None,
        evidence=tuple(evidence),
    )
