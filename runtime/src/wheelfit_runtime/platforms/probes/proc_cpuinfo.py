"""Parse ``/proc/cpuinfo``: the flags every processor has, and the kinds of Arm core."""

from __future__ import annotations

from dataclasses import dataclass

from wheelfit_runtime.platforms.facts import Core
from wheelfit_runtime.platforms.probes.cpuinfo_flags import PATH, common_flags

__all__ = ["PATH", "CpuInfo", "parse"]


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """The content of the file, over all processors in it."""

    flags: frozenset[str] | None
    """Flags that every processor has (P-105); None if the file has none."""
    cores: tuple[Core, ...]
    """The kinds of Arm core, in ascending order."""
    differ: bool
    """Whether the processors have different flags."""


def parse(text: str, line_name: str) -> CpuInfo:
    """Return the flags that all processors share, and their cores (P-105, P-114).

    :param line_name: ``flags`` on x86, ``Features`` on Arm; an emulator may show
        the file of a host of the other kind.
    """
    cores: set[Core] = set()
    implementer: int | None = None
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if not separator:
            continue
        key = key.strip()
        if key == "CPU implementer":
            implementer = _number(value)
        elif key == "CPU part":
            part = _number(value)
            if implementer is not None and part is not None:
                cores.add(Core(implementer, part))
    flags, differ = common_flags(text, line_name)
    return CpuInfo(flags, tuple(sorted(cores)), differ)


def _number(text: str) -> int | None:
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None
