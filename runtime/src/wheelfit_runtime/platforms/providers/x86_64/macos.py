"""Read what macOS says of an x86-64 processor (P-106)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.facts import Cpu
from wheelfit_runtime.platforms.probes import sysctl
from wheelfit_runtime.platforms.providers.x86_64 import tables

if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTS = (
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "machdep.cpu.extfeatures",
)
NAMES: tuple[str, ...] = (*_LISTS, sysctl.BRAND, sysctl.TRANSLATED)


def parse(answers: Mapping[str, bytes]) -> Cpu:
    """Read the three lists of feature names (P-106)."""
    words: list[str] = []
    for name in _LISTS:
        words += sysctl.text(answers, name).lower().split()
    flags = {tables.MACOS_FLAGS.get(word, word) for word in words}
    warnings: tuple[str, ...] = ()
    if flags and sysctl.is_on(answers, sysctl.TRANSLATED):
        flags -= tables.NOT_TRANSLATED
        warnings = ("this Python is translated by Rosetta; AVX and newer are left out",)
    return Cpu(
        flags=frozenset(flags) or None,
        brand=sysctl.text(answers, sysctl.BRAND),
        evidence=sysctl.evidence(answers),
        warnings=warnings,
    )
