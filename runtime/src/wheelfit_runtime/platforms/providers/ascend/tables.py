"""The tables of Huawei's Ascend NPUs (P-140, P-141)."""

from __future__ import annotations

from typing import Final

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_VERSION = "2026-11"

PUBLISHED_TYPES: Final = ("910b", "310p", "a3")
"""The types in the reference plugin for the chips it was written for."""
APPENDED_TYPES: Final = ("910c",)
"""The further types in published wheels, which the plugin does not list."""

# P-140: chips named by a product; the tool prints 910 for the second generation.
TYPE_OF_CHIP: Mapping[str, str] = {"910": "a3"}

# P-140: chips of one family run the same code, as 910b3 and 910b4.
TYPE_OF_FAMILY: tuple[str, ...] = ("910b", "310p")

# P-141: two names of one type; the one that is detected or overridden comes first.
ALIASES: Mapping[str, str] = {"a3": "910c", "910c": "a3"}

# P-143: PCI devices whose number shows the type; that of the first 910 (0xd801) does not.
TYPE_OF_DEVICE: Mapping[int, str] = {0xD100: "310", 0xD500: "310p", 0xD802: "910b", 0xD803: "a3"}
