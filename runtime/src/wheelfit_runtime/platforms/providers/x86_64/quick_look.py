"""Detect only the level of an x86-64 processor, with the result of `provider`, but faster."""

# Imported when packages with several implementations are imported, so it imports few modules.
from __future__ import annotations

import sys

from wheelfit_runtime.platforms.probes.cpuinfo_flags import PATH, common_flags
from wheelfit_runtime.platforms.providers.x86_64 import instruction, tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wheelfit_runtime.platforms.providers.x86_64.instruction import Answers

FEATURE = "level"
"""The only detected feature."""


def supported() -> tuple[str, ...] | None:
    """Return the levels of this machine, the best first; None: use the provider."""
    if sys.platform != "linux":
        return None
    try:
        with open(PATH, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - see above
            return levels_in(file.read(), instruction.read_registers())
    except (OSError, ValueError, AttributeError):
        return None  # the provider needs fewer facts


def levels_in(text: str, answers: Answers) -> tuple[str, ...] | None:
    """Return the levels that ``/proc/cpuinfo`` and CPUID confirm, the best first (P-105).

    :return: None if the provider would warn, or the file has no flags.
    """
    flags, _ = common_flags(text, "flags")
    if flags is None or instruction.unconfirmed(flags, instruction.flags_of(*answers)):
        return None
    return levels_of(flags)


def levels_of(flags: frozenset[str]) -> tuple[str, ...]:
    """Return the levels whose flags are all present, the best first (P-102).

    :param flags: by their Linux names.
    """
    levels: list[str] = []
    for name, needed in tables.LEVELS:  # each level needs the ones below
        if not needed <= flags:
            break
        levels.insert(0, name)
    return tuple(levels)
