"""The compilation of a library: its optimisation, and whether assertions are enabled.

Debug information names the compiler and its options for each unit (``DW_AT_producer``; GCC writes
them there, clang only on request). Where that is missing, the instructions of x86-64 distinguish
unoptimised code from other code.
"""

from __future__ import annotations

import hashlib
import importlib.util
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.errors import NeedsExtra
from wheelfit.wheels.binaries import elf
from wheelfit.wheels.binaries.bounded_reader import (
    FACTS_LIMITS,
    SYMBOLS_LIMITS,
    ReadLimits,
    Unreadable,
    Window,
)
from wheelfit.wheels.binaries.elf_layout import ElfLayout
from wheelfit.wheels.binaries.facts import Format
from wheelfit.wheels.binaries.instructions import FrameUse, count_frame_use
from wheelfit.wheels.binaries.reading import read_binary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

_DEBUG = ReadLimits(12_000_000, 2 << 30, 256 << 20)
"""Enough for whole sections of debug information."""
_CODE = ReadLimits(100_000, 4 << 30, 4 << 20)
_PIECE = 4 << 20
_ASSERTIONS = frozenset({"__assert_fail", "__assert_rtn", "__assert_func", "__assert"})
"""Functions of C libraries that are called when an assertion fails."""
_RANKS = {level: rank for rank, level in enumerate(("0", "g", "1", "z", "s", "2", "3", "fast"))}
_MIN_ACCESS_SHARE, _MIN_RELOAD_SHARE, _MIN_PROLOGUE_SHARE, _MIN_ACCESSES = 0.1, 0.01, 0.25, 16
"""Limits for unoptimised code, which has every variable in memory: a fifth to a half of its
instructions access the frame, at least one in fifty of these reads the variable just written, and
every function sets up a frame pointer. Optimised code may have one of these traits."""


@dataclass(frozen=True, slots=True)
class Optimisation:
    """The facts about the compilation of a library."""

    levels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """By the name of a source file, the lowest level it was compiled with, such as ``3``."""
    has_assertions: bool = False
    frames: FrameUse = FrameUse()
    """How its functions use the stack frame; known for x86-64 only."""
    code: str = ""
    """A digest of the machine code."""

    def losses_against(self, plain: Optimisation) -> tuple[str, ...]:
        """Return the lost optimisations of this library, a sentence without a full stop each."""
        return (*self._lost_levels(plain), *self._lost_assertions(plain))

    def _lost_levels(self, plain: Optimisation) -> Iterable[str]:
        shared = [name for name in self.levels if name in plain.levels]
        for name in shared:
            level, expected = self.levels[name], plain.levels[name]
            if _RANKS[level] < _RANKS[expected]:
                yield f"{name} is compiled with -O{level}, in the plain wheel with -O{expected}"
        if not shared and self.is_unoptimised and not plain.is_unoptimised:
            share = self.frames.accesses / self.frames.instructions
            yield (
                f"its code is not optimised, that of the plain wheel is ({share:.0%} of its "
                "instructions access variables in memory)"
            )

    @property
    def is_unoptimised(self) -> bool:
        """Whether the instructions look unoptimised."""
        frames = self.frames
        return (
            frames.accesses >= max(_MIN_ACCESSES, _MIN_ACCESS_SHARE * frames.instructions)
            and frames.reloads >= _MIN_RELOAD_SHARE * frames.accesses
            and frames.prologues >= _MIN_PROLOGUE_SHARE * frames.returns
        )

    def _lost_assertions(self, plain: Optimisation) -> Iterable[str]:
        if self.has_assertions and not plain.has_assertions:
            yield "it has assertions, in the plain wheel they are off (-DNDEBUG)"


def require_readers() -> None:
    """Check that the readers of libraries are installed, before a build that needs them.

    :raises NeedsExtra: a reader is not installed.
    """
    for library, module in (("pyelftools", "elftools"), ("iced-x86", "iced_x86")):
        if importlib.util.find_spec(module) is None:
            raise NeedsExtra("build", library)


def read_optimisation(file: BinaryIO, name: str) -> Optimisation | None:
    """Return the known facts about a library's compilation; None if it is not an ELF file.

    :raises NeedsExtra: a library to read it is not installed.
    """
    binary = read_binary(file, name)
    if binary is None or binary.format is not Format.ELF:
        return None
    producers: tuple[tuple[str, str], ...] = ()
    imported: frozenset[str] = frozenset()
    sections: list[tuple[int, int]] = []
    frames, digest = FrameUse(), ""
    with suppress(Unreadable):
        producers = elf.read_producers(Window(file, _DEBUG))
    with suppress(Unreadable):
        imported = elf.read_symbols(Window(file, SYMBOLS_LIMITS)).imported
    with suppress(Unreadable):
        sections = ElfLayout(Window(file, FACTS_LIMITS)).code_sections()
        digest = _digest(Window(file, _CODE), sections)
    levels = _levels(producers)
    if "x86_64" in binary.machines:
        with suppress(Unreadable):
            frames = count_frame_use(Window(file, _CODE), sections)
    has_assertions = not _ASSERTIONS.isdisjoint(map(elf.name_of, imported))
    return Optimisation(levels, has_assertions, frames, digest)


def _levels(producers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the lowest level of each source whose options are known."""
    levels: dict[str, str] = {}
    for name, producer in producers:
        options = [word for word in producer.split() if word.startswith("-")]
        if not options or not producer.startswith("GNU ") or producer.startswith("GNU AS"):
            continue
        level = next((word[2:] for word in reversed(options) if word.startswith("-O")), "0")
        level = level or "1"
        if level not in _RANKS:
            continue
        levels[name] = min(level, levels.get(name, level), key=_RANKS.__getitem__)
    return levels


def _digest(window: Window, sections: Iterable[tuple[int, int]]) -> str:
    digest = hashlib.sha256()
    for start, size in sections:
        for position in range(start, start + size, _PIECE):
            digest.update(window.read(position, min(_PIECE, start + size - position)))
    return digest.hexdigest()
