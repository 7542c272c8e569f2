"""Ask Huawei's command-line tool for NPUs, where files do not tell enough (P-140, P-143)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.platforms.providers.ascend.files import AscendCard

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.child_processes import Answer
    from wheelfit_runtime.platforms.system_view import SystemView

QUESTION = "npu-smi info"
_MASKS = "ASCEND_RT_VISIBLE_DEVICES|ASCEND_VISIBLE_DEVICES"

_NAME = re.compile(r"([0-9]{1,4})\s+(?:ascend ?)?([0-9]{3}[0-9a-z_.-]*)")
_VERSION = re.compile(r"\bVersion:\s*(\S+)")


class NpuTable(NamedTuple):
    """What the tool says."""

    cards: tuple[AscendCard, ...]
    """In its order; a card with two chips is there once."""
    driver_version: str | None
    """As ``24.1.rc3``."""


def read(surroundings: SystemView) -> Answer | None:
    """Return what the tool left behind; None without the tool."""
    program = surroundings.program("npu-smi")
    if program is None:
        return None
    return surroundings.ask(QUESTION, program, "info", hidden=_MASKS)


def parse(answer: Answer) -> NpuTable:
    """Take cards and version out of the table; nothing if the tool failed."""
    if not answer.succeeded:
        return NpuTable((), None)
    text = answer.output.decode("utf-8", "replace")
    cards: dict[AscendCard, None] = {}
    is_below_a_card = False
    for line in text.splitlines():
        # A card is a row as "| 0     910B3     | OK      | 94.3 …". The row below has numbers
        # of the chip and its address, if any; rows further down have numbers of processes.
        cells = [cell.strip().lower() for cell in line.split("|")]
        if len(cells) < 4 or cells[0]:
            continue
        match = _NAME.fullmatch(cells[1])
        if match is None or not cells[2][:1].isalpha() or (is_below_a_card and match[2].isdigit()):
            is_below_a_card = False
            continue
        cards[AscendCard(int(match[1]), match[2])] = None
        is_below_a_card = True
    version = _VERSION.search(text)
    return NpuTable(tuple(cards), version[1] if version else None)
