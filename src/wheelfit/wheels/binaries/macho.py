"""Read Mach-O files of macOS, also universal ones: machines, libraries, oldest system.

Without a library: existing ones open files themselves, and trust every count in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.bounded_reader import Unreadable, Window
from wheelfit.wheels.binaries.facts import Binary, Format, MinimumSystem

if TYPE_CHECKING:
    from collections.abc import Iterator


_UNIVERSAL, _UNIVERSAL_64 = b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf"
_THIN = {
    b"\xce\xfa\xed\xfe": ("<", 28),
    b"\xcf\xfa\xed\xfe": ("<", 32),
    b"\xfe\xed\xfa\xce": (">", 28),
    b"\xfe\xed\xfa\xcf": (">", 32),
}
"""By the first bytes of a file for one machine: the order of bytes, and the header's size."""
MAGICS = frozenset([_UNIVERSAL, _UNIVERSAL_64, *_THIN])
_MACHINES = {
    7: "i686",
    12: "armv7l",
    18: "ppc",
    0x01000007: "x86_64",
    0x0100000C: "aarch64",
    0x01000012: "ppc64",
}
# A Java class begins with the same bytes; the number in place of the count is 45 or more.
_MAX_SLICES = 16
_MAX_COMMANDS = 10_000
# Load commands: LC_LOAD_DYLIB with its variants; LC_ID_DYLIB and LC_RPATH; LC_VERSION_MIN_MACOSX
# and LC_BUILD_VERSION.
_LIBRARIES = frozenset([0xC, 0x20, 0x80000018, 0x8000001F, 0x80000023])
_OWN_NAME, _RPATH = 0xD, 0x8000001C
_OLD_MINIMUM, _MINIMUM = 0x24, 0x32
_MACOS = 1
_SEGMENTS = {0x1: ("I", 36), 0x19: ("Q", 48)}
"""Commands that name a segment, with the format and offset of its size in the file."""
_DEBUG_SEGMENT = b"__DWARF"


@dataclass(slots=True)
class _Facts:
    """The facts about all slices: the parts of a universal file for one machine each."""

    machines: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    rpath: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    systems: list[MinimumSystem] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    debug: int = 0
    """Bytes of debug information."""


def read_macho(window: Window, member: str) -> Binary | None:
    """Return the description of a Mach-O file; None for a Java class."""
    magic = window.read(0, 4)
    facts = _Facts()
    if magic in _THIN:
        _read_slice(window, 0, facts)
    else:
        (count,) = window.unpack(">I", 4)
        if count > _MAX_SLICES:
            return None
        for start in _slice_offsets(window, count, wide=magic == _UNIVERSAL_64):
            try:
                _read_slice(window, start, facts)
            except Unreadable as error:
                facts.faults.append(str(error))
    if not facts.machines:
        raise Unreadable(facts.faults[0] if facts.faults else "it has no code")
    return Binary(
        member,
        Format.MACHO,
        window.size,
        tuple(dict.fromkeys(facts.machines)),
        facts.names[0] if facts.names else None,
        tuple(dict.fromkeys(facts.needed)),
        tuple(dict.fromkeys(facts.rpath)),
        minimum_systems=tuple(dict.fromkeys(facts.systems)),
        debug=facts.debug,
        faults=tuple(dict.fromkeys(facts.faults)),
    )


def _slice_offsets(window: Window, count: int, *, wide: bool) -> Iterator[int]:
    for number in range(count):
        if wide:
            yield window.unpack(">Q", 8 + 32 * number + 8)[0]
        else:
            yield window.unpack(">I", 8 + 20 * number + 8)[0]


def _read_slice(window: Window, start: int, facts: _Facts) -> None:
    order, header = _THIN.get(window.read(start, 4), ("", 0))
    if not order:
        raise Unreadable(f"its slice at {start} is not a Mach-O file")
    cpu, _, _, count, size = window.unpack(f"{order}5I", start + 4)
    machine = _MACHINES.get(cpu, f"0x{cpu:x}")
    facts.machines.append(machine)
    if count > _MAX_COMMANDS:
        raise Unreadable(f"its slice for {machine} has {count} commands")
    position, stop = start + header, start + header + size
    for _ in range(count):
        kind, length = window.unpack(f"{order}II", position)
        if length < 8 or position + length > stop:
            raise Unreadable(f"a command of its slice for {machine} exceeds the commands' size")
        try:
            _read_command(window, position, order, kind, length, machine, facts)
        except Unreadable as error:
            facts.faults.append(str(error))
        position += length


def _read_command(
    window: Window, position: int, order: str, kind: int, length: int, machine: str, facts: _Facts
) -> None:
    """Add the facts of a load command of a slice for a machine."""
    if kind in _LIBRARIES or kind in (_OWN_NAME, _RPATH):
        (offset,) = window.unpack(f"{order}I", position + 8)
        if not 12 <= offset < length:
            raise Unreadable(f"a name of its slice for {machine} lies outside of its command")
        text = window.text(position + offset, length - offset)
        names = {_OWN_NAME: facts.names, _RPATH: facts.rpath}.get(kind, facts.needed)
        names.append(text)
    elif kind == _MINIMUM:
        platform, version = window.unpack(f"{order}II", position + 8)
        if platform == _MACOS:
            facts.systems.append(_minimum(machine, version))
    elif kind in _SEGMENTS:
        if window.read(position + 8, 16).rstrip(b"\0") == _DEBUG_SEGMENT:
            field_format, field_offset = _SEGMENTS[kind]
            facts.debug += window.unpack(f"{order}{field_format}", position + field_offset)[0]
    elif kind == _OLD_MINIMUM:
        facts.systems.append(_minimum(machine, *window.unpack(f"{order}I", position + 8)))


def _minimum(machine: str, version: int) -> MinimumSystem:
    return MinimumSystem(machine, "macos", (version >> 16, (version >> 8) & 0xFF))
