"""The tables of AMD's GPUs and ROCm (P-120 to P-123)."""
# ruff: noqa: SIM905  # long lists of words are easier to compare with their source as text

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


DATA_VERSION = "2026-11"

# P-120: the valid values of the amd-variant-provider package, in its order.
PUBLISHED_GFX: tuple[str, ...] = tuple(
    "gfx900 gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1101 gfx1102 gfx1200 gfx1201".split()
)
PUBLISHED_ROCM: tuple[str, ...] = (*(f"7.{minor}" for minor in range(10, -1, -1)), "6.4", "6.3")

# P-121: our additions, after those values: further names of rocm-bootstrap, in its order.
APPENDED_GFX: tuple[str, ...] = tuple(
    """
    gfx902 gfx904 gfx909 gfx90c gfx950 gfx1010 gfx1011 gfx1012 gfx1013 gfx1031 gfx1032 gfx1033
    gfx1034 gfx1035 gfx1036 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1250 gfx1251
    """.split()
)
# Newer releases (ROCm/TheRock, RELEASES.md, and the plugins of jax, 2026-11), then older ones that
# are still installed (P-123).
APPENDED_ROCM: tuple[str, ...] = (
    "10.1",
    "10.0",
    *(f"7.{minor}" for minor in range(14, 10, -1)),
    *(f"6.{minor}" for minor in range(2, -1, -1)),
    *(f"5.{minor}" for minor in range(7, -1, -1)),
)

# P-122: names of integrated GPUs only (LLVM's list of AMDGPU processors). gfx942 is left out: it is
# also the name of discrete GPUs, and machines with it have no other GPUs.
INTEGRATED_GFX: frozenset[str] = frozenset(
    """
    gfx902 gfx909 gfx90c gfx1013 gfx1033 gfx1035 gfx1036 gfx1037 gfx1103 gfx1150 gfx1151 gfx1152
    gfx1153
    """.split()
)

# P-120: names that rocm-bootstrap publishes under another name.
PACKAGE_OWNERS: Mapping[str, str] = {"gfx1250-strict": "gfx1250"}
