"""List the PCI devices that may be accelerators: one walk, shared by all who look for theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.platforms.surroundings import Surroundings

__all__ = [
    "ACCELERATOR",
    "AMD",
    "DISPLAY",
    "FOLDER",
    "GOOGLE",
    "HUAWEI",
    "INTEL",
    "NVIDIA",
    "PciDevice",
    "PciFiles",
    "of",
    "parse",
    "read",
]


def __dir__() -> list[str]:
    return __all__


FOLDER = "/sys/bus/pci/devices"

AMD, NVIDIA, HUAWEI, GOOGLE, INTEL = 0x1002, 0x10DE, 0x19E5, 0x1AE0, 0x8086
"""Makers of accelerators, by their numbers on the bus."""
_VENDORS = frozenset({AMD, NVIDIA, HUAWEI, GOOGLE, INTEL})

DISPLAY = 0x03
"""Base class of graphics devices, compute cards without a connector included."""
ACCELERATOR = 0x12
"""Base class of processing accelerators."""


class PciFiles(NamedTuple):
    """Hold what the files of one device say, as they say it; empty where one cannot be read."""

    vendor: str
    """As ``0x10de``."""
    kind: str = ""
    """Class, as ``0x030200``."""
    device: str = ""
    """As ``0x2330``."""
    uevent: str = ""
    """Lines as ``DRIVER=nvidia``."""


class PciDevice(NamedTuple):
    """Hold one PCI device."""

    address: str
    """As ``0000:01:00.0``."""
    kind: int
    """Class, as 0x030200; its first byte is `base_class`."""
    vendor: int
    """As 0x10de."""
    device: int
    """As 0x2330."""
    driver: str = ""
    """Kernel driver that is bound to it, as ``nvidia``; empty when none is, or none is told."""

    @property
    def base_class(self) -> int:
        """Return what kind of device it is, as 3 for a graphics device."""
        return self.kind >> 16


def of(surroundings: Surroundings) -> tuple[PciDevice, ...]:
    """Return the devices of the makers of accelerators, in the order of their addresses.

    The bus is walked once, whoever asks first.

    :param surroundings: what may be looked at.
    """
    return surroundings.once("pci devices", lambda seen: parse(read(seen)))


def read(surroundings: Surroundings) -> dict[str, PciFiles]:
    """Return the files of each device of a maker of accelerators, by address (P-96).

    Of other makers' devices nothing but the vendor is read: a server has hundreds.

    :param surroundings: what may be looked at.
    """
    found = {}
    for address in surroundings.children(FOLDER):
        vendor = surroundings.read_text(f"{FOLDER}/{address}/vendor") or ""
        if _number(vendor) in _VENDORS:
            texts = (
                surroundings.read_text(f"{FOLDER}/{address}/{name}") or ""
                for name in ("class", "device", "uevent")
            )
            found[address] = PciFiles(vendor, *texts)
    return found


def parse(found: Mapping[str, PciFiles]) -> tuple[PciDevice, ...]:
    """Turn the texts into numbers; what cannot be read is 0 (P-74).

    :param found: what :func:`read` returned.
    """
    return tuple(
        PciDevice(
            address.replace("_", ":"),  # as captured machines spell it
            _number(files.kind),
            _number(files.vendor),
            _number(files.device),
            _driver(files.uevent),
        )
        for address, files in sorted(found.items())
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
