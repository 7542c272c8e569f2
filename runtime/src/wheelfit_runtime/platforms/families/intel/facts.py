"""What probes find out about Intel's GPUs, as frozen records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.features import Evidence


class DeviceIp(NamedTuple):
    """The version of a GPU's design; compares as numbers do (P-133)."""

    architecture: int
    release: int
    revision: int

    def __str__(self) -> str:
        return f"{self.architecture}.{self.release}.{self.revision}"


class IntelGpu(NamedTuple):
    """An Intel GPU that a driver shows."""

    number: int
    """Its place in the drivers' order, from 0."""
    name: str
    """Its product name; empty when unknown."""
    ip: DeviceIp
    integrated: bool = False

    def __str__(self) -> str:
        words = f"{self.name}, {self.ip}" if self.name else f"{self.ip}"
        return f"GPU {self.number} ({words})"


class IntelFiles(NamedTuple):
    """Intel's GPUs as files alone list them (P-133)."""

    bound: tuple[str, ...] = ()
    """PCI addresses of graphics devices that a driver has which can compute."""
    unbound: tuple[str, ...] = ()
    """PCI addresses of the others."""
    hidden_nodes: tuple[str, ...] = ()
    """Device nodes of the bound ones, as ``/dev/dri/renderD128``, if there is none of them."""
    unlisted: bool = False
    """Whether a GPU may be there that no bus lists: Windows, or its Linux (``/dev/dxg``)."""
    libraries: tuple[str, ...] = ()
    """Where the Level Zero loader lies, as the machine names it."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_worth_asking(self) -> bool:
        """Return whether the loader of the library, if installed, can find anything."""
        return self.unlisted or (bool(self.bound) and not self.hidden_nodes)


class IntelDriver(NamedTuple):
    """The report of Level Zero."""

    gpus: tuple[IntelGpu, ...] = ()
    """The usable devices, in the drivers' order."""
    problem: str = ""
    """Why there is none, one clause; empty when nothing is wrong."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang, error) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()
