"""Read what a shared object calls itself (DT_SONAME of an ELF file), and nothing else."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["read_soname"]


def __dir__() -> list[str]:
    return __all__


_MAGIC = b"\x7fELF"
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_SONAME = 0, 5, 14
_LONGEST_TABLE = 1 << 20
"""Bytes of a table that are read at most; real ones have some hundreds."""
_LONGEST_NAME = 4096


class _Layout(NamedTuple):
    """Say how the numbers of one class of files are written, 64 or 32 bits wide."""

    table: tuple[int, str]
    """Where the header says where the program headers are."""
    rows: int
    """Where the header says how large and how many they are."""
    segment: str
    """Offset in the file, address, physical address, length in the file."""
    segment_start: int
    entry: str
    """Tag and value of the dynamic section."""


_LAYOUTS = {
    1: _Layout((28, "I"), 42, "IIII", 4, "iI"),
    2: _Layout((32, "Q"), 54, "QQQQ", 8, "qQ"),
}


def read_soname(stream: BinaryIO) -> str | None:
    """Return the SONAME; None when there is none, or the file is not what it should be.

    :param stream: the file, which can be sought in.
    """
    try:
        return _soname(stream)
    except (OSError, ValueError, OverflowError, struct.error):
        return None


def _soname(stream: BinaryIO) -> str | None:
    head = stream.read(64)
    layout = _LAYOUTS.get(head[4]) if head[:4] == _MAGIC and len(head) == 64 else None
    if layout is None:
        return None
    order = "<" if head[5] == 1 else ">"
    place, form = layout.table
    (start,) = struct.unpack_from(order + form, head, place)
    size, count = struct.unpack_from(f"{order}HH", head, layout.rows)
    table = _part(stream, start, size * count)
    segments = []
    dynamic = b""
    for row in range(0, len(table), max(size, 1)):
        (kind,) = struct.unpack_from(f"{order}I", table, row)
        offset, address, _, length = struct.unpack_from(
            order + layout.segment, table, row + layout.segment_start
        )
        if kind == _PT_LOAD:
            segments.append((address, offset, length))
        elif kind == _PT_DYNAMIC:
            dynamic = _part(stream, offset, length)
    values = _dynamic(dynamic, order + layout.entry)
    names, name = values.get(_DT_STRTAB), values.get(_DT_SONAME)
    if names is None or name is None:
        return None
    for address, offset, length in segments:
        if address <= names < address + length:
            text = _part(stream, offset + names - address + name, _LONGEST_NAME)
            return text.partition(b"\0")[0].decode("utf-8", "replace") or None
    return None


def _part(stream: BinaryIO, start: int, length: int) -> bytes:
    stream.seek(start)
    return stream.read(min(length, _LONGEST_TABLE))


def _dynamic(section: bytes, form: str) -> dict[int, int]:
    """Return the values of a dynamic section by their tags, the first of each."""
    size = struct.calcsize(form)
    values: dict[int, int] = {}
    for tag, value in struct.iter_unpack(form, section[: len(section) // size * size]):
        if tag == _DT_NULL:
            break
        values.setdefault(tag, value)
    return values
