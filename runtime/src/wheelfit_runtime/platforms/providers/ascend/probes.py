"""Facts about NPUs, their driver and CANN from files and Huawei's tool (P-140 to P-143)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.probes import pci_devices
from wheelfit_runtime.platforms.providers.ascend.record import FAMILY

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.child_processes import Answer
    from wheelfit_runtime.platforms.probes.pci_devices import PciDevice
    from wheelfit_runtime.platforms.system_view import SystemView


DRIVER = "/usr/local/Ascend/driver/version.info"
MANAGER = "/dev/davinci_manager"
"""The device file of the driver; present as soon as it is loaded."""

# Patterns are compiled where they are needed: most machines have nothing to match.
_NODE = r"v?davinci[0-9]{1,4}"
_VERSION = r"(?m)^Version=(\S+)\s*$"


class AscendCard(NamedTuple):
    """An NPU."""

    number: int
    """Its number in the tool, or its index on the bus."""
    chip: str
    """Its name in the tool, in lower case and without ``ascend``, such as ``910b3``."""

    def __str__(self) -> str:
        return f"NPU {self.number} ({self.chip})"


class AscendFiles(NamedTuple):
    """The NPUs and their driver by files alone (P-143)."""

    devices: tuple[int, ...] = ()
    """PCI device numbers of the NPUs, as 0xd802, in the order of their addresses."""
    nodes: tuple[str, ...] = ()
    """Device nodes of NPUs, such as ``/dev/davinci0``."""
    driver_version: str | None = None
    """The text in the driver's file, such as ``24.1.rc3``."""
    evidence: tuple[Evidence, ...] = ()


class AscendDriver(NamedTuple):
    """The NPUs, driver and CANN by files, or Huawei's tool."""

    cards: tuple[AscendCard, ...] = ()
    """The usable NPUs, in the driver's order."""
    driver_version: str | None = None
    """The text in its source."""
    cann_version: str | None = None
    """The text in its source."""
    problem: str = ""
    """The reason NPUs or their types are unknown, one clause; empty if they are known."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


class AscendSigns(NamedTuple):
    """The devices and driver described by files."""

    devices: tuple[PciDevice, ...]
    """Huawei's processing accelerators on the bus, in the order of their addresses."""
    nodes: tuple[str, ...]
    """Device nodes, that of the driver among them."""
    driver: str | None
    """The content of the driver's file; None if it cannot be read."""


def read_files(view: SystemView) -> AscendSigns:
    """Return devices on the bus, device nodes, and the driver's file."""
    devices = tuple(
        device
        for device in pci_devices.of(view, FAMILY.pci_vendor)
        if device.base_class == pci_devices.ACCELERATOR
    )
    names = [
        f"/dev/{name}"
        for name in view.children("/dev")
        if "davinci" in name and re.fullmatch(_NODE, name)
    ]
    nodes = (*sorted(names, key=lambda name: (len(name), name)), MANAGER)
    present = tuple(name for name in nodes if view.exists(name))
    return AscendSigns(devices, present, view.read_text(DRIVER))


def parse_files(signs: AscendSigns) -> AscendFiles:
    """Return the NPUs and their driver, with evidence."""
    version = re.search(_VERSION, signs.driver) if signs.driver else None
    evidence = [
        Evidence(
            f"{pci_devices.FOLDER}/{device.address}", f"NPU {device.vendor:04x}:{device.device:04x}"
        )
        for device in signs.devices
    ]
    evidence += [Evidence(name, "exists") for name in signs.nodes]
    if signs.driver is not None:
        evidence.append(Evidence(DRIVER, version[0].strip() if version else "has no version"))
    return AscendFiles(
        devices=tuple(device.device for device in signs.devices),
        nodes=tuple(name for name in signs.nodes if name != MANAGER),
        driver_version=version[1] if version else None,
        evidence=tuple(evidence),
    )


# --- the installed CANN ---------------------------------------------------------------------------

_FOLDERS = ("/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann")
"""The default folders of its installation; the second since 8.5."""

_INSTALLED = r"(?m)^version=(\S+)\s*$"
_RUNNING = r"(?m)^toolkit_running_version=\[(?:[^:\]]*:)?([^:\]]+)\]"


def read_cann(view: SystemView) -> tuple[tuple[str, str], ...]:
    """Return path and text of the files with a version, the preferred one first."""
    configured = view.environ.get("ASCEND_TOOLKIT_HOME", "").rstrip("/")
    names = (
        f"{folder}/{name}"
        for folder in dict.fromkeys(folder for folder in (configured, *_FOLDERS) if folder)
        for name in (f"{view.architecture}-linux/ascend_toolkit_install.info", "version.cfg")
    )
    return tuple((name, text) for name in names if (text := view.read_text(name)) is not None)


def parse_cann(text: str) -> str | None:
    r"""Return the version in a file, or None.

    >>> parse_cann("package_name=Ascend-cann-toolkit\nversion=8.2.RC1\narch=aarch64")
    '8.2.RC1'
    >>> parse_cann("# version: 1.0\ntoolkit_running_version=[7.6.0.1.220:8.0.0]")
    '8.0.0'
    """
    match = re.search(_INSTALLED, text) or re.search(_RUNNING, text)
    return match[1] if match else None


# --- Huawei's tool, if files lack facts -----------------------------------------------------------

QUESTION = "npu-smi info"
_MASKS = "ASCEND_RT_VISIBLE_DEVICES|ASCEND_VISIBLE_DEVICES"

_SMI_NAME = pattern(r"([0-9]{1,4})\s+(?:ascend ?)?([0-9]{3}[0-9a-z_.-]*)")
_SMI_VERSION = pattern(r"\bVersion:\s*(\S+)")


class NpuTable(NamedTuple):
    """The answer of the tool."""

    cards: tuple[AscendCard, ...]
    """In its order; a card with two chips is one entry."""
    driver_version: str | None
    """As ``24.1.rc3``."""


def ask_npu_smi(view: SystemView) -> Answer | None:
    """Run the tool and return its answer; None without the tool."""
    program = view.program("npu-smi")
    if program is None:
        return None
    return view.ask(QUESTION, program, "info", hidden=_MASKS)


def parse_npu_smi(answer: Answer) -> NpuTable:
    """Return cards and version in the table; none if the tool failed."""
    if not answer.succeeded:
        return NpuTable((), None)
    text = answer.output.decode("utf-8", "replace")
    cards: dict[AscendCard, None] = {}
    is_below_a_card = False
    for line in text.splitlines():
        # A card is a row as "| 0     910B3     | OK      | 94.3 …". The row below has numbers
        # of the chip and its address, if any; rows further down have numbers of processes.
        cells = [cell.strip().lower() for cell in line.split("|")]
        if len(cells) < 4 or cells[0]:
            continue
        match = _SMI_NAME.fullmatch(cells[1])
        has_health = cells[2][:1].isalpha()  # as OK
        if match is None or not has_health or (is_below_a_card and match[2].isdigit()):
            is_below_a_card = False
            continue
        cards[AscendCard(int(match[1]), match[2])] = None
        is_below_a_card = True
    version = _SMI_VERSION.search(text)
    return NpuTable(tuple(cards), version[1] if version else None)
