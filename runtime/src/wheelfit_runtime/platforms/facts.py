"""The facts that probes return, as frozen records.

Most are named tuples: every detection imports them all, and creating a data class takes several
times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.features import Evidence


class Core(NamedTuple):
    """A kind of 64-bit Arm core, by its main identification register."""

    implementer: int
    """The number of its designer, as 0x41 for Arm."""
    part: int
    """The number of the design, as 0xd0c for Neoverse N1."""

    def __str__(self) -> str:
        return f"0x{self.implementer:02x}/0x{self.part:03x}"


class Cpu(NamedTuple):
    """The facts about the processors a process may run on."""

    flags: frozenset[str] | None = None
    """The flags that every processor has, by their Linux names; None: unknown."""
    cores: tuple[Core, ...] = ()
    """The different kinds of core, in ascending order; empty when unknown or not Arm."""
    brand: str = ""
    """The name the maker gave it, such as ``Apple M2``; empty when unknown."""
    evidence: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()


class CpuidRegisters(NamedTuple):
    """The four registers that one CPUID leaf fills, 32 bits each."""

    eax: int
    ebx: int
    ecx: int
    edx: int


@dataclass(frozen=True, slots=True)
class CpuidTable:
    """Recorded results of the CPUID instruction (P-107)."""

    leaves: Mapping[tuple[int, int], CpuidRegisters]
    """Registers by leaf and subleaf, without those that the processor does not have."""
    xcr0: int | None = None
    """The register states the system saves; None when unknown (OSXSAVE is clear)."""
