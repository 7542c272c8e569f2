"""List PCI devices; the bus is read once for all probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.system_view import SystemView

FOLDER = "/sys/bus/pci/devices"

DISPLAY = 0x03
"""Base class of graphics devices, compute cards without a connector included."""
ACCELERATOR = 0x12
"""Base class of processing accelerators."""


class PciFiles(NamedTuple):
    """The raw texts of one device's files; empty where one cannot be read."""

    vendor: str
    """As ``0x10de``."""
    kind: str = ""
    """Class, such as ``0x030200``."""
    device: str = ""
    """As ``0x2330``."""
    uevent: str = ""
    """Lines as ``DRIVER=nvidia``."""


class PciDevice(NamedTuple):
    """One PCI device."""

    address: str
    """As ``0000:01:00.0``."""
    kind: int
    """Class, as 0x030200; its first byte is `base_class`."""
    vendor: int
    """As 0x10de."""
    device: int
    """As 0x2330."""
    driver: str = ""
    """The kernel driver bound to it, such as ``nvidia``; empty if none, or unknown."""

    @property
    def base_class(self) -> int:
        """The base class of the device, as 3 for a graphics device."""
        return self.kind >> 16


def of(view: SystemView, vendor: int) -> tuple[PciDevice, ...]:
    """Return the devices of a vendor, in the order of their addresses."""
    return view.once(f"pci devices {vendor:#06x}", lambda view: parse(read(view, vendor)))


def _vendors(view: SystemView) -> dict[str, str]:
    """Return the text of each device's vendor file, by address."""
    return {
        address: view.read_text(f"{FOLDER}/{address}/vendor") or ""
        for address in view.children(FOLDER)
    }


def read(view: SystemView, vendor: int) -> dict[str, PciFiles]:
    """Return the files of each device of a vendor, by address (P-96).

    A server has hundreds of devices, so of the others only the vendor is read.
    """
    devices = {}
    for address, device_vendor in view.once("pci makers", _vendors).items():
        if _number(device_vendor) == vendor:
            texts = (
                view.read_text(f"{FOLDER}/{address}/{name}") or ""
                for name in ("class", "device", "uevent")
            )
            devices[address] = PciFiles(device_vendor, *texts)
    return devices


def parse(devices: Mapping[str, PciFiles]) -> tuple[PciDevice, ...]:
    """Return the devices, sorted by address; invalid numbers are 0 (P-74)."""
    return tuple(
        PciDevice(
            address.replace("_", ":"),  # captured machines have "_" for ":"
            _number(files.kind),
            _number(files.vendor),
            _number(files.device),
            _driver(files.uevent),
        )
        for address, files in sorted(devices.items())
    )


def _number(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _driver(uevent: str) -> str:
    for line in uevent.splitlines():
        name, _, value = line.partition("=")
        if name == "DRIVER":
            return value.strip()
    return ""
