"""The tables of Intel's GPUs (P-130 to P-132).

A GPU is identified by the version of its graphics design, ``architecture.release.revision``, which
is also the target of compilers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class DeviceIp(NamedTuple):
    """The version of a GPU's design; compared by its numbers (P-133)."""

    architecture: int
    release: int
    revision: int

    def __str__(self) -> str:
        return f"{self.architecture}.{self.release}.{self.revision}"


DATA_VERSION = "2026-11"

# P-133
DRIVERS: Final = frozenset({"i915", "xe"})
"""Linux drivers through which a GPU can compute."""

# Linux, include/drm/intel/pciids.h, 2026-11. Later graphics have other first bytes, so newer ones
# are not taken for older.
OLDER_GRAPHICS: Final = frozenset(
    bytes.fromhex(
        "00 01 04 0a 0c 0d 0f 16 19 22 25 27 29 2a 2e 31 35 3e 45 46 49 4c 4e 59 5a 71 87 8a 9a 9b"
        "a0 a7"
    )
)
"""The first bytes of PCI numbers of graphics older than Arc, without builds for them."""
FIRST_ARC: Final = DeviceIp(12, 55, 8)
"""The first design with builds for it."""

# P-130: the reference plugin's order, newest first. The names are those of Intel's compiler.
DEVICES: Mapping[DeviceIp, tuple[str, ...]] = {
    DeviceIp(35, 11, 0): ("cri",),
    DeviceIp(35, 10, 4): ("nvl-p",),
    DeviceIp(30, 5, 4): ("nvl-u", "nvl-h"),
    DeviceIp(30, 4, 4): ("nvl-s", "nvl-hx", "nvl-ul"),
    DeviceIp(30, 3, 1): ("wcl",),
    DeviceIp(30, 1, 0): ("ptl-u",),
    DeviceIp(30, 0, 4): ("ptl-h",),
    DeviceIp(20, 4, 4): ("lnl-m",),
    DeviceIp(20, 2, 0): ("bmg-g31",),
    DeviceIp(20, 1, 0): ("bmg-g21",),
    DeviceIp(12, 74, 4): ("arl-h",),
    DeviceIp(12, 71, 4): ("mtl-h",),
    DeviceIp(12, 70, 4): ("mtl-u", "arl-u", "arl-s"),
    DeviceIp(12, 60, 7): ("pvc",),
    DeviceIp(12, 57, 0): ("acm-g12", "dg2-g12"),
    DeviceIp(12, 56, 5): ("acm-g11", "dg2-g11", "ats-m75"),
    DeviceIp(12, 55, 8): ("acm-g10", "dg2-g10", "ats-m150"),
    DeviceIp(12, 10, 0): ("dg1",),
    DeviceIp(12, 4, 0): ("adl-n",),
    DeviceIp(12, 3, 0): ("adl-p", "rpl-p"),
    DeviceIp(12, 2, 0): ("adl-s", "rpl-s"),
    DeviceIp(12, 1, 0): ("rkl",),
    DeviceIp(12, 0, 0): ("tgllp", "tgl"),
}

# P-131: the base whose code runs on a device too; code for the device does not run on its base.
BASES: Mapping[DeviceIp, DeviceIp] = {
    DeviceIp(30, 5, 4): DeviceIp(30, 0, 4),
    DeviceIp(30, 4, 4): DeviceIp(30, 0, 4),
    DeviceIp(30, 3, 1): DeviceIp(30, 0, 4),
    DeviceIp(30, 1, 0): DeviceIp(30, 0, 4),
    DeviceIp(20, 4, 4): DeviceIp(20, 1, 0),
    DeviceIp(20, 2, 0): DeviceIp(20, 1, 0),
    DeviceIp(12, 71, 4): DeviceIp(12, 70, 4),
    DeviceIp(12, 57, 0): DeviceIp(12, 55, 8),
    DeviceIp(12, 56, 5): DeviceIp(12, 55, 8),
}

VALUES: Final = tuple(str(ip) for ip in DEVICES)
"""The reference plugin's vocabulary, in its order."""
