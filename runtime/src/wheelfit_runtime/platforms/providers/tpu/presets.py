"""The parts of presets for TPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.preset_parts import Accelerator, PresetLine, unknown_preset
from wheelfit_runtime.platforms.providers.tpu import tables
from wheelfit_runtime.platforms.providers.tpu.record import PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator


def read(part: str, rest: str) -> Accelerator:
    """Return the accelerator of a part of a preset's name."""
    if rest not in tables.GENERATIONS:
        raise unknown_preset(part)
    facts = {"TPU_VARIANT_PROVIDER_FORCE_PRESENT": "true"}
    return Accelerator(part, PRESETS.name, facts, f"TPU {rest}", PRESETS.platforms)


def lines() -> Iterator[PresetLine]:
    """Yield a line for each known device."""
    for name in tables.GENERATIONS:
        yield PresetLine(f"tpu-{name}", f"tpu-{name}", f"TPU {name}")
