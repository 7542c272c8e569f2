"""PCI devices are listed once for all who look for theirs."""

from __future__ import annotations

from pathlib import Path

from platforms.detecting import view_of, write_files

from wheelfit_runtime.platforms.probes import pci_devices
from wheelfit_runtime.platforms.probes.pci_devices import PciDevice, PciFiles


def _add(root: Path, address: str, **texts: str) -> None:
    files = {name: f"{text}\n" for name, text in texts.items()}
    write_files(root / "sys/bus/pci/devices" / address, files)


def test_a_device_is_told_by_its_files(tmp_path: Path) -> None:
    """P-96: class, vendor, device and bound driver, as numbers and names."""
    uevent = "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330"
    files = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330", "uevent": uevent}
    _add(tmp_path, "0000_3b_00.0", **files)
    (device,) = pci_devices.of(view_of(tmp_path), 0x10DE)
    assert device == PciDevice("0000:3b:00.0", 0x030200, 0x10DE, 0x2330, "nvidia")
    assert device.base_class == pci_devices.DISPLAY


def test_devices_of_other_makers_are_left_out(tmp_path: Path) -> None:
    """P-96: what cannot be an accelerator costs one read."""
    _add(tmp_path, "0000_00_02.0", vendor="0x1af4")
    assert pci_devices.of(view_of(tmp_path), 0x10DE) == ()


def test_what_cannot_be_read_is_nothing() -> None:
    """P-74: missing and odd files make a device unknown, and are no error."""
    assert pci_devices.parse({"a": PciFiles("0x8086", "garbage")}) == (
        PciDevice("a", 0, 0x8086, 0),
    )


def test_the_bus_is_walked_once(tmp_path: Path) -> None:
    """P-22: the second who asks gets the first one's list."""
    _add(tmp_path, "0000_01_00.0", vendor="0x10de")
    view = view_of(tmp_path)
    first = pci_devices.of(view, 0x10DE)
    _add(tmp_path, "0000_02_00.0", vendor="0x10de")
    assert pci_devices.of(view, 0x10DE) is first
    assert len(pci_devices.of(view_of(tmp_path), 0x10DE)) == 2
