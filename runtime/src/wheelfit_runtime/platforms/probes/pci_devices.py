"""List the PCI devices that may be accelerators: one walk, shared by all probes."""

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
    """Class, as ``0x030200``."""
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
    """The kernel driver bound to it, as ``nvidia``; empty when none is, or none is known."""

    @property
    def base_class(self) -> int:
        """Return the base class of the device, as 3 for a graphics device."""
        return self.kind >> 16


def of(view: SystemView, vendor: int) -> tuple[PciDevice, ...]:
    """Return the devices of a maker, in the order of their addresses.

    The bus and each device are read once.
    """
    return view.once(f"pci devices {vendor:#06x}", lambda seen: parse(read(seen, vendor)))


def _makers(view: SystemView) -> dict[str, str]:
    """Return the vendor in each device's file, by address."""
    return {
        address: view.read_text(f"{FOLDER}/{address}/vendor") or ""
        for address in view.children(FOLDER)
    }


def read(view: SystemView, vendor: int) -> dict[str, PciFiles]:
    """Return the files of each device of a maker, by address (P-96).

    Of other makers' devices nothing but the vendor is read: a server has hundreds.
    """
    devices = {}
    for address, maker in view.once("pci makers", _makers).items():
        if _number(maker) == vendor:
            texts = (
                view.read_text(f"{FOLDER}/{address}/{name}") or ""
                for name in ("class", "device", "uevent")
            )
            devices[address] = PciFiles(maker, *texts)
    return devices


def parse(devices: Mapping[str, PciFiles]) -> tuple[PciDevice, ...]:
    """Turn the texts into numbers; unreadable ones are 0 (P-74)."""
    return tuple(
        PciDevice(
            address.replace("_", ":"),  # as captured machines spell it
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
