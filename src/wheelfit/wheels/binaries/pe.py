"""Read PE files of Windows: the machine, the libraries, and code for GPUs.

Without a library: existing ones read files into memory as a whole, and follow every table without
bounds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.wheels.binaries import fatbin, offload
from wheelfit.wheels.binaries.bounded_reader import Unreadable, Window, collect_items
from wheelfit.wheels.binaries.facts import Binary, DeviceCode, Format, in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


MAGIC = b"MZ"

_MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64", 0x14C: "i686", 0x1C4: "armv7l"}
_SUFFIXES = (".dll", ".exe", ".pyd")
_HEADER_AT = 0x3C
_OPTIONAL_AT = 24  # the optional header, after the beginning of the header
_DIRECTORIES = {0x10B: 96, 0x20B: 112}  # their offset in each kind of optional header
_IMPORTS, _DELAYED = 1, 13
_MAX_LIBRARIES = 10_000


class _Section(Struct, frozen=True):
    name: str
    address: int
    extent: int
    """Bytes in memory."""
    start: int
    """The offset in the file."""
    size: int
    """Bytes in the file, with padding."""
    is_executable: bool = False

    @property
    def size_in_file(self) -> int:
        """Bytes in the file, without padding; a file may leave out the size in memory."""
        return min(self.size, self.extent) or self.size


def executable_sections(window: Window) -> list[tuple[int, int]]:
    """Return the position and size of each section with code."""
    (header,) = window.unpack("<I", _HEADER_AT)
    return [
        (section.start, section.size_in_file)
        for section in _sections(window, header)
        if section.is_executable
    ]


_EXECUTABLE = 0x20000000


def read_pe(window: Window, member: str) -> Binary | None:
    """Return the description of a PE file; None for a text or a program for DOS."""
    try:
        (header,) = window.unpack("<I", _HEADER_AT)
        is_pe = window.read(header, 4) == b"PE\0\0"
    except Unreadable:
        if member.lower().endswith(_SUFFIXES):  # a truncated PE file
            raise
        is_pe = False
    if not is_pe:
        return None
    (machine,) = window.unpack("<H", header + 4)
    faults: list[str] = []
    code: list[DeviceCode] = []
    unlinked: list[DeviceCode] = []
    targets: list[str] = []
    sections = collect_items(lambda: list(_sections(window, header)), faults)
    needed = collect_items(lambda: _libraries(window, header + _OPTIONAL_AT, sections), faults)
    debug = collect_items(lambda: [_debug_size(window, header, sections)], faults)
    for section in sections:
        span = (section.start, section.size_in_file)
        if section.name in fatbin.LOADED_SECTIONS:
            code += collect_items(partial(fatbin.read_images, window, *span), faults)
        elif section.name in fatbin.UNLINKED_SECTIONS:
            unlinked += collect_items(partial(fatbin.read_images, window, *span), faults)
        elif section.name in offload.SECTIONS:
            targets += collect_items(partial(offload.read_targets, window, *span), faults)
    return Binary(
        member,
        Format.PE,
        window.size,
        (_MACHINES.get(machine, f"0x{machine:x}"),),
        needed=tuple(dict.fromkeys(needed)),
        debug=sum(debug),
        code=in_order(code),
        unlinked=in_order(unlinked),
        targets=tuple(sorted(set(targets))),
        faults=tuple(faults),
    )


def _sections(window: Window, header: int) -> Iterator[_Section]:
    """Yield the sections, whose table follows the optional header."""
    (count,) = window.unpack("<H", header + 6)
    (optional_size,) = window.unpack("<H", header + 20)
    start = header + _OPTIONAL_AT + optional_size
    for position in range(start, start + 40 * count, 40):
        name = window.read(position, 8).rstrip(b"\0").decode("ascii", "replace")
        extent, address, size, offset = window.unpack("<IIII", position + 8)
        (flags,) = window.unpack("<I", position + 36)
        yield _Section(name, address, extent, offset, size, bool(flags & _EXECUTABLE))


def _debug_size(window: Window, header: int, sections: Sequence[_Section]) -> int:
    """Return the bytes of debug information in sections, as MinGW writes it.

    A section name of more than eight letters is ``/4``, an offset after the table of symbols.
    """
    long_names = [
        section for section in sections if section.name[:1] == "/" and section.name[1:].isdecimal()
    ]
    if not long_names:
        return 0
    symbols, count = window.unpack("<II", header + 12)
    texts = symbols + _SYMBOL_SIZE * count
    return sum(
        long_name.size
        for long_name in long_names
        if window.text(texts + int(long_name.name[1:]), 512).startswith((".debug_", ".zdebug_"))
    )


_SYMBOL_SIZE = 18


def _libraries(window: Window, optional_header: int, sections: Sequence[_Section]) -> Iterator[str]:
    """Yield the names of imported libraries, also of those with delayed loading."""
    (kind,) = window.unpack("<H", optional_header)
    if kind not in _DIRECTORIES:
        raise Unreadable("its optional header is of an unknown kind")
    directories = optional_header + _DIRECTORIES[kind]
    (directory_count,) = window.unpack("<I", directories - 4)
    # Number of the directory, size of its rows, and offset of the name in a row.
    for number, size, name_field in ((_IMPORTS, 20, 12), (_DELAYED, 32, 4)):
        if directory_count <= number:
            continue
        address, length = window.unpack("<II", directories + 8 * number)
        if not address or not length:
            continue
        row = _position(sections, address)
        for _ in range(_MAX_LIBRARIES):
            values = window.unpack(f"<{size // 4}I", row)
            if not any(values):
                break
            yield window.text(_position(sections, values[name_field // 4]), 512)
            row += size
        else:
            raise Unreadable(f"it has more than {_MAX_LIBRARIES} libraries")


def _position(sections: Sequence[_Section], address: int) -> int:
    """Return the position of an address in the file."""
    for section in sections:
        if section.address <= address < section.address + max(section.extent, section.size):
            return section.start + address - section.address
    raise Unreadable(f"it points to the address {address:#x}, which is in none of its sections")
