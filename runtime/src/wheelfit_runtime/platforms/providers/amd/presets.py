"""The parts of presets for AMD's GPUs and ROCm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.preset_parts import (
    VERSION,
    Accelerator,
    PresetLine,
    newer_than_tables,
    unknown_preset,
)
from wheelfit_runtime.platforms.providers.amd import tables
from wheelfit_runtime.platforms.providers.amd.record import PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GFX_WORDS: Mapping[str, str] = {
    "gfx900": "Vega 56, Vega 64, MI25",
    "gfx906": "MI50, MI60, Radeon VII",
    "gfx908": "MI100",
    "gfx90a": "MI210, MI250",
    "gfx942": "MI300A, MI300X, MI325X",
    "gfx950": "MI350X, MI355X",
    "gfx1030": "RX 6800, RX 6900",
    "gfx1031": "RX 6700",
    "gfx1032": "RX 6600",
    "gfx1035": "Radeon 680M",
    "gfx1100": "RX 7900, PRO W7900",
    "gfx1101": "RX 7700, RX 7800",
    "gfx1102": "RX 7600",
    "gfx1103": "Radeon 780M",
    "gfx1150": "Ryzen AI 300 (Strix Point)",
    "gfx1151": "Ryzen AI Max (Strix Halo)",
    "gfx1152": "Ryzen AI 7 350",
    "gfx1153": "Radeon 820M",
    "gfx1200": "RX 9060",
    "gfx1201": "RX 9070",
}
GFX: Mapping[str, str] = {
    name: _GFX_WORDS.get(name, "") for name in (*tables.PUBLISHED_GFX, *tables.APPENDED_GFX)
}
"""Every known name of an AMD GPU, with well-known products."""


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


ROCM: tuple[str, ...] = tuple(
    sorted((*tables.PUBLISHED_ROCM, *tables.APPENDED_ROCM), key=_release, reverse=True)
)
"""Every known release of ROCm, newest first."""

_EXAMPLE_ROCM = "7.0"


def read(part: str, rest: str) -> Accelerator:
    """Return the accelerator of a part of a preset's name."""
    version, _, device = rest.partition("-")
    match = VERSION.fullmatch(version)
    if match is None or f"{int(match[1])}.{int(match[2])}" != version:
        raise unknown_preset(part, "a ROCm version is written as 6.4")
    notes = []
    if version not in ROCM:
        if _release(version) < max(map(_release, ROCM)):
            raise unknown_preset(part, f"there is no ROCm {version}")
        notes.append(newer_than_tables(f"ROCm {version}", tables.DATA_VERSION))
    facts = {"AMD_VARIANT_PROVIDER_FORCE_ROCM_VERSION": version}
    description = f"ROCm {version}"
    if device:
        if device not in GFX:
            raise unknown_preset(part)
        facts["AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH"] = device
        products = GFX[device]
        description += f" with {device}" + (f" ({products})" if products else "")
    platforms = PRESETS.platforms
    return Accelerator(part, PRESETS.name, facts, description, platforms, tuple(notes))


def lines() -> Iterator[PresetLine]:
    """Yield a line for each known device."""
    for name, products in GFX.items():
        description = products or "AMD GPU"
        yield PresetLine(f"rocm-M.m-{name}", f"rocm-{_EXAMPLE_ROCM}-{name}", description)
