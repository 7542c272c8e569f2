"""The parts of preset names, which families parse and lists show.

A family of accelerators has a module ``presets`` with `read(part, rest)`, which returns an
`Accelerator`, and `lines()`, which yields a `PresetLine` for each known device. For a family of
processors, that module has ``PROCESSORS`` by name, and `detect(cpu, system)`, which returns its
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
    """The part of the preset's name, such as ``cuda-12.8-sm90``."""
    family: str
    """The prefix of its family's presets, such as ``cuda``."""
    facts: Mapping[str, str] = field(hash=False)
    """The facts for its provider, as environment variables."""
    description: str
    platforms: tuple[str, ...]
    """The platforms that can have one; the first is the default."""
    notes: tuple[str, ...] = ()


class ProcessorRow(NamedTuple):
    """A processor that presets can name."""

    architecture: str
    cpu: Cpu
    """The facts that a probe would return."""
    description: str
    system: str = ""
    """The only system that can have it, such as ``Linux``; empty: any."""


class PresetLine(NamedTuple):
    """A line of the list of presets."""

    pattern: str
    """Its name, with ``M.m`` for any version."""
    example: str
    """A valid name."""
    description: str


VERSION = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})")
"""A version in a name, such as ``12.8``."""


def unknown_preset(part: str, note: str | None = None) -> UnknownHost:
    """Return the error for an unknown part; the caller with all presets adds the known ones."""
    return UnknownHost(f"{part[:80]!r} is not a preset, and no part of one", note=note)


def newer_than_tables(subject: str, date: str) -> str:
    """Return the note about a version or device that the tables do not have."""
    return f"{subject} is newer than the tables of {date}"
