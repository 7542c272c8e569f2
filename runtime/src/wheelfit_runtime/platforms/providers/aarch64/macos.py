"""Read what macOS says of a 64-bit Arm processor (P-112)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.facts import Cpu
from wheelfit_runtime.platforms.probes import sysctl
from wheelfit_runtime.platforms.providers.aarch64 import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = "hw.optional."
NAMES: tuple[str, ...] = (sysctl.BRAND, *(_PREFIX + name for name in tables.MACOS_FLAGS))


def parse(answers: Mapping[str, bytes]) -> Cpu:
    """Read the switches below ``hw.optional`` and the brand name."""
    flags = {
        flag
        for name, known in tables.MACOS_FLAGS.items()
        if sysctl.is_on(answers, _PREFIX + name)
        for flag in known
    }
    return Cpu(
        flags=frozenset(flags) or None,
        brand=sysctl.text(answers, sysctl.BRAND),
        evidence=sysctl.evidence(answers),
    )
