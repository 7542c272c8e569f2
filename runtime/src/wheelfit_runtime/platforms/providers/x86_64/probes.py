"""Read the features of an x86-64 processor, real or recorded (P-106, P-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.facts import Cpu, CpuidRegisters, CpuidTable
from wheelfit_runtime.platforms.probes import sysctl
from wheelfit_runtime.platforms.providers.x86_64 import instruction, tables
from wheelfit_runtime.platforms.system_view import SystemView, architecture_of_this_process

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_cpuid(view: SystemView) -> CpuidTable | None:
    """Return the table of a record, or of the processor if this is an x86-64 process.

    :return: None if neither is available.
    """
    if view.recorded_cpuid is not None:
        return view.recorded_cpuid
    if not view.is_real or architecture_of_this_process() != "x86_64":
        return None
    try:
        leaves, xcr0 = instruction.read_registers()
    except (OSError, ValueError, AttributeError):
        return None  # the mapping was refused, or there is no C library to use
    return CpuidTable(
        {leaf: CpuidRegisters(*registers) for leaf, registers in leaves.items()}, xcr0
    )


def parse_cpuid(table: CpuidTable) -> frozenset[str]:
    """Return the flags, by Linux names, that processor and system allow.

    :param table: answers of the instruction; missing leaves count as zero.
    """
    return instruction.flags_of(table.leaves, table.xcr0)


_FEATURE_LISTS = (
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "machdep.cpu.extfeatures",
)
MACOS_NAMES: tuple[str, ...] = (*_FEATURE_LISTS, sysctl.BRAND, sysctl.TRANSLATED)


def parse_macos(answers: Mapping[str, bytes]) -> Cpu:
    """Return the processor by three lists of feature names (P-106)."""
    words: list[str] = []
    for name in _FEATURE_LISTS:
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
