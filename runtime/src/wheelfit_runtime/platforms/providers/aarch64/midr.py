"""Read each Arm core's identification register where Linux shows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.facts import Core

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.system_view import SystemView

FOLDER = "/sys/devices/system/cpu"
_PROCESSOR = re.compile(r"cpu[0-9]+")


def read(surroundings: SystemView) -> tuple[str, ...]:
    """Return the texts of ``cpu*/regs/identification/midr_el1``, as many as there are."""
    names = (
        f"{FOLDER}/{child}/regs/identification/midr_el1"
        for child in surroundings.children(FOLDER)
        if _PROCESSOR.fullmatch(child)
    )
    texts = (surroundings.read_text(name) for name in names)
    return tuple(text for text in texts if text)


def parse(texts: Iterable[str]) -> tuple[Core, ...]:
    """Return the kinds of core, in ascending order; what is not a number is left out.

    :param texts: hexadecimal numbers, as ``0x00000000413fd0c1``.
    """
    cores = set()
    for text in texts:
        try:
            register = int(text, 16)
        except ValueError:
            continue
        cores.add(Core(register >> 24 & 0xFF, register >> 4 & 0xFFF))
    return tuple(sorted(cores))
