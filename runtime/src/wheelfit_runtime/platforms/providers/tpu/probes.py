"""Detection of TPUs from files (P-151)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.probes import pci_devices
from wheelfit_runtime.platforms.providers.tpu import tables
from wheelfit_runtime.platforms.providers.tpu.record import FAMILY

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.probes.pci_devices import PciDevice
    from wheelfit_runtime.platforms.system_view import SystemView

_SHARED_NUMBERS = frozenset(chip for chip, _ in tables.GENERATION_OF_BOARD)
"""The device numbers of several generations of chips, which the board tells apart."""
# The older driver has nodes of its own; newer ones are reached through VFIO.
_NODES = (("/dev", "accel"), ("/dev/vfio", ""))


class TpuChip(NamedTuple):
    """A TPU on the bus."""

    address: str
    """As ``0000:00:05.0``."""
    device: int
    """As 0x0063."""
    generation: str
    """As ``v5e``; empty when it has no public name."""


class TpuFiles(NamedTuple):
    """TPUs as files list them (P-151)."""

    chips: tuple[TpuChip, ...] = ()
    nodes: tuple[str, ...] = ()
    """Device nodes through which programs reach them, such as ``/dev/accel0``."""
    evidence: tuple[Evidence, ...] = ()


class TpuSigns(NamedTuple):
    """The raw observations from which `TpuFiles` is parsed."""

    devices: tuple[tuple[PciDevice, str], ...] = ()
    """TPUs, each with the number of its board, such as ``0x004f``; empty if it was not needed."""
    nodes: tuple[str, ...] = ()
    """Device nodes; read only if there is a TPU."""


def read(view: SystemView) -> TpuSigns:
    """Read the observations from a machine; unreadable files are skipped (P-151)."""
    devices = []
    for device in pci_devices.of(view, FAMILY.pci_vendor):
        if device.device in tables.GENERATION_OF_CHIP:
            board = ""
            if device.device in _SHARED_NUMBERS:
                path = f"{pci_devices.FOLDER}/{device.address}/subsystem_device"
                board = view.read_text(path) or ""
            devices.append((device, board))
    nodes = []
    for folder, start in _NODES if devices else ():
        for name in view.children(folder):
            is_node = name.startswith(start) and name.removeprefix(start).isdecimal()
            if is_node and view.exists(f"{folder}/{name}"):
                nodes.append(f"{folder}/{name}")
    return TpuSigns(tuple(devices), tuple(nodes))


def parse(signs: TpuSigns) -> TpuFiles:
    """Return the TPUs that observations show, with the evidence."""
    chips = tuple(
        TpuChip(device.address, device.device, _generation(device.device, board))
        for device, board in signs.devices
    )
    evidence = [
        Evidence(
            f"{pci_devices.FOLDER}/{chip.address}",
            f"vendor {FAMILY.pci_vendor:#06x}, device {chip.device:#06x}",
        )
        for chip in chips
    ]
    evidence += [Evidence(node, "exists") for node in signs.nodes]
    return TpuFiles(chips, signs.nodes, tuple(evidence))


def _generation(device: int, board: str) -> str:
    try:
        number = int(board, 16)
    except ValueError:
        number = 0
    return tables.GENERATION_OF_BOARD.get((device, number), tables.GENERATION_OF_CHIP[device])
