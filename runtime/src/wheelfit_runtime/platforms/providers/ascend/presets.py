"""The parts of presets for Ascend NPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.preset_parts import Accelerator, PresetLine, unknown
from wheelfit_runtime.platforms.providers.ascend import tables
from wheelfit_runtime.platforms.providers.ascend.record import PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator

NPUS = (*tables.PUBLISHED_TYPES, *tables.APPENDED_TYPES)

_CANN = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,3})?(?:\.rc[0-9]{1,2})?")


def read(part: str, rest: str) -> Accelerator:
    """Return the accelerator that a part of a name means."""
    kind, _, cann = rest.partition("-cann")
    if kind not in NPUS or ("-cann" in rest and not _CANN.fullmatch(cann)):
        raise unknown(part)
    facts = {"ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE": kind}
    words = f"Ascend {kind}"
    if cann:
        facts["ASCEND_VARIANT_PROVIDER_FORCE_CANN_VERSION"] = cann
        words += f" with CANN {cann}"
    platforms = PRESETS.platforms
    return Accelerator(part, PRESETS.name, facts, words, platforms)


def lines() -> Iterator[PresetLine]:
    """Yield a line for each device that is known."""
    for name in NPUS:
        yield PresetLine(f"ascend-{name}", f"ascend-{name}", f"Ascend {name}; -cannM.m may follow")
