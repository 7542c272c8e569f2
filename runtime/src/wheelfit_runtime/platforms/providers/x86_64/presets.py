"""The x86-64 processors that presets may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.preset_parts import ProcessorRow
from wheelfit_runtime.platforms.providers.x86_64 import provider
from wheelfit_runtime.platforms.providers.x86_64.record import FAMILY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.facts import Cpu
    from wheelfit_runtime.platforms.features import Detection


def _row(level: str, description: str) -> ProcessorRow:
    return ProcessorRow(FAMILY.namespace, provider.of_level(level), description)


PROCESSORS: Mapping[str, ProcessorRow] = {
    "x86_64-v1": _row("v1", "any x86-64 processor"),
    "x86_64-v2": _row("v2", "x86-64 level v2 (Nehalem, 2008)"),
    "x86_64-v3": _row("v3", "x86-64 level v3 (Haswell, 2013; Zen)"),
    "x86_64-v4": _row("v4", "x86-64 level v4 (Skylake-SP, 2017; Zen 4)"),
}
"""By the name in a preset."""


def detect(cpu: Cpu, system: str) -> Detection:  # noqa: ARG001 - the system does not matter
    """Return the detection of a processor with known facts."""
    return provider.supported(cpu)
