"""The parts of presets for Ascend NPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.preset_parts import Accelerator, PresetLine, unknown_preset
from wheelfit_runtime.platforms.providers.ascend import tables
from wheelfit_runtime.platforms.providers.ascend.record import PRESETS

if TYPE_CHECKING:
    from collections.abc import Iterator

NPUS = (*tables.PUBLISHED_TYPES, *tables.APPENDED_TYPES)

_CANN = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,3})?(?:\.rc[0-9]{1,2})?")


def read(part: str, rest: str) -> Accelerator:
    """Return the accelerator that a part of a preset's name describes.

    :param part: as ``ascend-910b-cann8.2``.
    :param rest: the part without ``ascend-``.
    :raises UnknownHost: it describes no accelerator.
    """
    npu_type, dash, cann = rest.partition("-cann")
    if npu_type not in NPUS or (dash and not _CANN.fullmatch(cann)):
        raise unknown_preset(part)
    variables = {"ASCEND_VARIANT_PROVIDER_FORCE_NPU_TYPE": npu_type}
    description = f"Ascend {npu_type}"
    if cann:
        variables["ASCEND_VARIANT_PROVIDER_FORCE_CANN_VERSION"] = cann
        description += f" with CANN {cann}"
    return Accelerator(part, PRESETS.name, variables, description, PRESETS.platforms)


def lines() -> Iterator[PresetLine]:
    """Yield the line of each type of NPU in the list of presets."""
    for name in NPUS:
        yield PresetLine(f"ascend-{name}", f"ascend-{name}", f"Ascend {name}; -cannM.m may follow")
