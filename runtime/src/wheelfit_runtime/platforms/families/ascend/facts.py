"""What probes find out about Huawei's Ascend NPUs, as frozen records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.features import Evidence


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
