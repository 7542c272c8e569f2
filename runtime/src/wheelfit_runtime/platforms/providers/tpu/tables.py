"""The tables of Google's TPUs (P-150 to P-153)."""

from __future__ import annotations

from typing import Final

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_VERSION = "2026-11"

PRESENT: Final = ("true", "false")
"""P-150: the reference plugin's vocabulary."""

# P-151: the generations of TPUs by PCI device; empty: it has no public name, or depends on the
# board. Google's network cards and disks have the same vendor.
GENERATION_OF_CHIP: Mapping[int, str] = {
    0x0027: "",
    0x0056: "",
    0x005E: "v4",
    0x0062: "v5p",
    0x0063: "v5e",
    0x006F: "v6e",
    0x0076: "7x",
    0x007C: "",
    0x0083: "",
}

# P-151: v2 and v3 have the same chip number, and differ by the number of the board.
GENERATION_OF_BOARD: Mapping[tuple[int, int], str] = {
    (0x0027, 0x004E): "v2",
    (0x0027, 0x004F): "v3",
}

GENERATIONS: Final = ("7x", "v6e", "v5p", "v5e", "v4", "v3", "v2")
"""P-153: newest first."""
