"""What probes find out about AMD's GPUs, as frozen records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.features import Evidence


class AmdGpu(NamedTuple):
    """A GPU that the kernel or a tool lists."""

    node: int
    """Number of its node among the kernel's, or its place in a tool's list."""
    name: str
    """Which code it runs, as ``gfx942``; empty when nobody says."""
    integrated: bool = False
    problem: str = ""
    """Why it cannot be used here, one clause; empty when it can."""

    def __str__(self) -> str:
        words = f"{self.name}, integrated" if self.integrated else self.name
        return f"GPU at node {self.node} ({words})" if words else f"GPU at node {self.node}"


class KfdTopology(NamedTuple):
    """The report of AMD's compute driver in the kernel (P-124)."""

    is_listed: bool = False
    """Whether there is a list of nodes at all; processors are nodes too."""
    gpus: tuple[AmdGpu, ...] = ()
    """Those that can be used and those that cannot, in the order of the nodes."""
    evidence: tuple[Evidence, ...] = ()


class AmdDriver(NamedTuple):
    """GPUs and ROCm as files, or else AMD's tools, list them."""

    gpus: tuple[AmdGpu, ...] = ()
    """Those that can be used and those that cannot, in the order of the nodes."""
    rocm_version: tuple[int, int] | None = None
    """Major and minor of the installed ROCm; None when none was found."""
    problem: str = ""
    """Why no tool could be asked, one clause; empty when none had to be, or one answered."""
    broken: bool = False
    """Whether the problem is a failure (crash, hang) and not just absence."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()
