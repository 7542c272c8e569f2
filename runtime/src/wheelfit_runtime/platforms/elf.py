"""Read from a shared object (an ELF file) its SONAME, the libraries it needs, and its build id."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import BinaryIO

MAGIC = b"\x7fELF"
"""The first bytes of an ELF file."""
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SONAME = 0, 1, 5, 14
_NT_GNU_BUILD_ID = 3
_MAX_TABLE_SIZE = 1 << 20
"""Bytes of a table; real ones have some hundreds."""
_MAX_NAME_SIZE = 4096
_MAX_NEEDED = 256


class _Layout(NamedTuple):
    """The number format of one class of files, 64 or 32 bits wide."""

    table: tuple[int, str]
    """The field of the header with the offset of the program headers."""
    rows: int
    """The field of the header with their size and number."""
    segment: str
    """Offset in the file, address, physical address, length in the file."""
    segment_start: int
    """The position of these fields in a program header."""
    entry: str
    """Tag and value of the dynamic section."""


_LAYOUTS = {
    1: _Layout((28, "I"), 42, "IIII", 4, "iI"),
    2: _Layout((32, "Q"), 54, "QQQQ", 8, "qQ"),
}


class SharedObject(NamedTuple):
    """The names in a shared object."""

    soname: str | None = None
    """Its own name (DT_SONAME)."""
    needed: tuple[str, ...] = ()
    """The libraries to load with it (DT_NEEDED), in order."""
    build_id: str | None = None
    """The build id from its linker, in hexadecimal digits (NT_GNU_BUILD_ID)."""


def read_shared_object(stream: BinaryIO) -> SharedObject:
    """Return the names in a file; none when it is not a valid ELF file."""
    try:
        return _shared_object(stream)
    except (OSError, ValueError, OverflowError, struct.error):
        return SharedObject()


def _shared_object(stream: BinaryIO) -> SharedObject:
    head = stream.read(64)
    layout = _LAYOUTS.get(head[4]) if head[:4] == MAGIC and len(head) == 64 else None
    if layout is None:
        return SharedObject()
    order = "<" if head[5] == 1 else ">"
    field_offset, field_format = layout.table
    (start,) = struct.unpack_from(order + field_format, head, field_offset)
    size, count = struct.unpack_from(f"{order}HH", head, layout.rows)
    table = _read_part(stream, start, size * count)
    segments = []
    dynamic = b""
    build_id = None
    for row in range(0, len(table), max(size, 1)):
        (kind,) = struct.unpack_from(f"{order}I", table, row)
        offset, address, _, length = struct.unpack_from(
            order + layout.segment, table, row + layout.segment_start
        )
        if kind == _PT_LOAD:
            segments.append((address, offset, length))
        elif kind == _PT_DYNAMIC:
            dynamic = _read_part(stream, offset, length)
        elif kind == _PT_NOTE and build_id is None:
            build_id = _build_id(_read_part(stream, offset, length), order)
    values = _dynamic_values(dynamic, order + layout.entry)
    if _DT_STRTAB not in values:
        return SharedObject(build_id=build_id)
    names_address = values[_DT_STRTAB][0]

    def name_at(name_offset: int) -> str:
        for address, offset, length in segments:
            if address <= names_address < address + length:
                start = offset + names_address - address + name_offset
                part = _read_part(stream, start, _MAX_NAME_SIZE)
                return part.partition(b"\0")[0].decode("utf-8", "replace")
        return ""

    soname = name_at(values[_DT_SONAME][0]) if _DT_SONAME in values else ""
    needed = map(name_at, values.get(_DT_NEEDED, ())[:_MAX_NEEDED])
    return SharedObject(soname or None, tuple(filter(None, needed)), build_id)


def _read_part(stream: BinaryIO, start: int, length: int) -> bytes:
    stream.seek(start)
    return stream.read(min(length, _MAX_TABLE_SIZE))


def _dynamic_values(section: bytes, form: str) -> dict[int, list[int]]:
    """Return the values of a dynamic section by their tags, in order."""
    size = struct.calcsize(form)
    values: dict[int, list[int]] = {}
    for tag, value in struct.iter_unpack(form, section[: len(section) // size * size]):
        if tag == _DT_NULL:
            break
        values.setdefault(tag, []).append(value)
    return values


def _build_id(notes: bytes, order: str) -> str | None:
    """Return the identifier among the notes of a segment."""
    offset = 0
    while offset + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(f"{order}III", notes, offset)
        start = offset + 12 + (name_size + 3) // 4 * 4
        if kind == _NT_GNU_BUILD_ID and notes[offset + 12 : offset + 12 + name_size] == b"GNU\0":
            return notes[start : start + size].hex() or None
        offset = start + (size + 3) // 4 * 4
    return None
