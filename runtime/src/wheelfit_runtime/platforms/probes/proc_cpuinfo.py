"""Read ``/proc/cpuinfo``: the flags every processor has, and the kinds of Arm core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.facts import Core

if TYPE_CHECKING:
    from wheelfit_runtime.platforms.system_view import Surroundings

PATH = "/proc/cpuinfo"

_ALIASES = {"pni": "sse3"}  # P-105


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """What the file says, over all processors in it."""

    flags: frozenset[str] | None
    """Abilities that every processor lists (P-105); None when the file lists none."""
    cores: tuple[Core, ...]
    """The kinds of Arm core, in ascending order."""
    differ: bool
    """Whether the processors list different abilities."""


def read(surroundings: Surroundings) -> str | None:
    """Return the file's text, or None when there is none."""
    return surroundings.read_text(PATH)


def parse(text: str, line_name: str) -> CpuInfo:
    """Take the intersection over all processors (P-105, P-114).

    :param line_name: ``flags`` on x86, ``Features`` on Arm; an emulator may show
        the file of a host of the other kind.
    """
    lists: set[str] = set()  # a machine of 500 processors has one or two different lines
    cores: set[Core] = set()
    implementer: int | None = None
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if not separator:
            continue
        key = key.strip()
        if key == line_name:
            lists.add(value)
        elif key == "CPU implementer":
            implementer = _number(value)
        elif key == "CPU part":
            part = _number(value)
            if implementer is not None and part is not None:
                cores.add(Core(implementer, part))
    names = [{_ALIASES.get(word, word) for word in line.split()} for line in lists]
    flags = frozenset(set.intersection(*names)) if names else None
    return CpuInfo(flags or None, tuple(sorted(cores)), len(lists) > 1)


def _number(text: str) -> int | None:
    try:
        return int(text.strip(), 0)
    except ValueError:
        return None
