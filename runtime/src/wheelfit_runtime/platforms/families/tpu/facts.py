"""What probes find out about Google's TPUs, as frozen records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.features import Evidence


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
    """Device nodes through which programs reach them, as ``/dev/accel0``."""
    evidence: tuple[Evidence, ...] = ()
