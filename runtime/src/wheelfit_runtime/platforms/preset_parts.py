"""The parts of preset names, which families parse and lists show.

A family of accelerators has a module ``presets`` with `read(part, rest)`, which returns an
`Accelerator`, and `lines()`, which yields a `PresetLine` for each device that is known. A family of
processors has one with ``PROCESSORS``, by name, and `detect(cpu, system)`, which returns its
provider's detection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from wheelfit_runtime.errors import UnknownHost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.facts import Cpu


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An accelerator of a preset."""

    name: str
    """The part of the preset's name, as ``cuda-12.8-sm90``."""
    family: str
    """How the presets of its family begin, as ``cuda``."""
    facts: Mapping[str, str] = field(hash=False)
    """The facts for its provider, by the variables that state them."""
    words: str
    platforms: tuple[str, ...]
    """Where there can be one; the first is meant when none is named."""
    notes: tuple[str, ...] = ()


class ProcessorRow(NamedTuple):
    """A processor."""

    architecture: str
    cpu: Cpu
    """The facts a provider would have found out."""
    words: str
    system: str = ""
    """Where a name may choose it, as ``Linux``; empty: everywhere."""


class PresetLine(NamedTuple):
    """A line of the list of presets."""

    pattern: str
    """Its name, with ``M.m`` where any version may stand."""
    example: str
    """A name that can be used as it is."""
    words: str


VERSION = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})")
"""A version in a name, as ``12.8``."""


def unknown(part: str, note: str | None = None) -> UnknownHost:
    """Return the error for an unknown part; the caller with all presets adds the known ones."""
    return UnknownHost(f"{part[:80]!r} is not a preset, and no part of one", note=note)


def newer(what: str, date: str) -> str:
    """Return the note on something that the tables do not have yet."""
    return f"{what} is newer than the tables of {date}"
