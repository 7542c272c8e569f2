"""A PCI bus below the root of a machine."""

from __future__ import annotations

from pathlib import Path

__all__ = ["add_device", "add_intel_gpu", "touch"]


def touch(root: Path, name: str) -> None:
    """Make an empty file, as a device node is one below a root."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def add_device(
    root: Path, address: str, *, vendor: str, device: str, kind: str = "0x030000", driver: str = ""
) -> Path:
    """Put a device on the bus and return its folder.

    :param address: as ``0000:03:00.0``.
    :param kind: class of the device.
    :param driver: which driver has it; none when empty.
    """
    folder = root / "sys/bus/pci/devices" / address.replace(":", "_")
    folder.mkdir(parents=True)
    uevent = f"DRIVER={driver}\n" if driver else ""
    files = {"vendor": vendor, "device": device, "class": kind, "uevent": f"{uevent}PCI_CLASS=1"}
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    return folder


def add_intel_gpu(
    root: Path, address: str = "0000:03:00.0", driver: str = "xe", node: str = "renderD128"
) -> None:
    """Put a GPU of Intel's on the bus, with its render node."""
    folder = add_device(root, address, vendor="0x8086", device="0x56a0", driver=driver)
    touch(folder, f"drm/{node}")
    touch(root, f"dev/dri/{node}")
