"""Read the tables of an ELF file: sections, segments, and dynamic entries.

Each table is read once, because a wheel may have hundreds of libraries. Offsets and counts of the
file may be wrong, so all reads go through a `bounded_reader.Window`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.wheels.binaries.bounded_reader import Unreadable, Window, printable

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_ENTRIES = 10_000
"""Entries of one table, at most: sections, segments, libraries, symbol versions."""
# The names of <elf.h>.
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_SHT_PROGBITS, _SHT_NOBITS, _SHT_GNU_VERNEED = 1, 8, 0x6FFFFFFE
_SHF_EXECINSTR = 4
_SHN_XINDEX = 0xFFFF
_DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 5, 14, 15, 29
_NT_GNU_PROPERTY_TYPE_0 = 5
_MAX_FOLDERS = 1 << 16
"""Bytes of a list of folders, at most; that of TensorFlow has more than 4096."""


class Section(NamedTuple):
    """A section of an ELF file."""

    name: str
    kind: int
    """``sh_type``."""
    start: int
    size: int
    link: int
    """``sh_link``: the index of another section, as of the string table with the names."""

    @property
    def is_in_file(self) -> bool:
        """Whether it has content in the file."""
        return self.kind != _SHT_NOBITS


class _Segment(NamedTuple):
    kind: int
    start: int
    address: int
    size: int


class DynamicEntries(NamedTuple):
    """The dynamic entries of a library, for the loader."""

    needed: list[str]
    rpath: list[str]
    """The folders of ``DT_RPATH`` and ``DT_RUNPATH``."""
    sonames: list[str]


class ElfLayout:
    """An ELF file of any class and byte order."""

    def __init__(self, window: Window) -> None:
        self._window = window
        head = window.read_some(0, 16)
        if len(head) < 16 or head[4] not in (1, 2) or head[5] not in (1, 2):
            raise Unreadable("it is not a valid ELF file")
        self.is_wide = head[4] == 2
        """Whether addresses have 64 bits."""
        self.is_little = head[5] == 1
        """Whether the lowest byte of a number comes first."""
        self._byte_order = "<" if self.is_little else ">"
        form = self._byte_order + ("HHIQQQIHHHHHH" if self.is_wide else "HHIIIIIHHHHHH")
        if window.size < 16 + struct.calcsize(form):
            raise Unreadable("it is not a valid ELF file: its header is cut off")
        fields = window.unpack(form, 16)
        self.machine = fields[1]
        """``e_machine``."""
        self._segments_start, self._sections_start = fields[4], fields[5]
        self._segment_size, self._segment_count = fields[8], fields[9]
        self._section_size, self._section_count, self._names_index = fields[10:]

    def sections(self) -> list[Section]:
        """Return all sections, in the order of their indexes."""
        if not self._sections_start:
            return []
        rows, names_index = self._section_rows()
        if names_index >= len(rows):
            raise Unreadable("the string table with the names of its sections is missing")
        _, _, _, _, names_start, names_size, _ = rows[names_index]
        names = _StringTable(self._window, names_start, names_size)
        return [
            Section(names.string_at(name), kind, start, size, link)
            for name, kind, _, _, start, size, link in rows
        ]

    def code_sections(self) -> list[tuple[int, int]]:
        """Return the positions and sizes of the sections with machine code."""
        rows, _ = self._section_rows()
        return [
            (start, size)
            for _, kind, flags, _, start, size, _ in rows
            if kind == _SHT_PROGBITS and flags & _SHF_EXECINSTR
        ]

    def _section_rows(self) -> tuple[list[tuple[int, ...]], int]:
        """Return the section header table, and the index of the section with the names."""
        if not self._sections_start:
            return [], 0
        form = struct.Struct(self._byte_order + ("IIQQQQI" if self.is_wide else "IIIIIII"))
        first = self._window.read(self._sections_start, form.size)
        _, _, _, _, _, size, link = form.unpack(first)
        # Numbers that do not fit into the file header are in the first row.
        count = self._section_count or size
        names_index = link if self._names_index == _SHN_XINDEX else self._names_index
        rows = list(self._rows(form, self._sections_start, self._section_size, count))
        return rows, names_index

    def dynamic(self) -> DynamicEntries:
        """Return the entries of the dynamic section."""
        form = struct.Struct(self._byte_order + ("qQ" if self.is_wide else "iI"))
        entries: list[tuple[int, int]] = []
        for segment in self._segments(_PT_DYNAMIC):
            count = min(segment.size // form.size, MAX_ENTRIES)
            for kind, value in self._rows(form, segment.start, form.size, count):
                if not kind:
                    break
                entries.append((kind, value))
            else:  # no end mark (kind 0) was read
                if count == MAX_ENTRIES:
                    raise Unreadable(f"its dynamic section has more than {MAX_ENTRIES} entries")
        dynamic = DynamicEntries([], [], [])
        if any(kind in (_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH) for kind, _ in entries):
            start = self._offset_of(dict(entries).get(_DT_STRTAB, 0))
            names = _StringTable(self._window, start, self._window.size - start)
            for kind, value in entries:
                if kind == _DT_NEEDED:
                    dynamic.needed.append(names.string_at(value))
                elif kind == _DT_SONAME:
                    dynamic.sonames.append(names.string_at(value))
                elif kind in (_DT_RPATH, _DT_RUNPATH):
                    dynamic.rpath.extend(names.string_at(value, _MAX_FOLDERS).split(":"))
        return dynamic

    def needed_versions(self, sections: list[Section]) -> Iterator[tuple[str, str]]:
        """Yield the SONAME of each needed library with a symbol version needed of it."""
        count = 0
        for section in sections:
            if section.kind != _SHT_GNU_VERNEED or section.link >= len(sections):
                continue
            string_table = sections[section.link]
            names = _StringTable(self._window, string_table.start, string_table.size)
            data = self._window.read(section.start, section.size)
            offset, next_library = 0, 1
            while next_library:
                _, _, library, versions, next_library = self._unpack("HHIII", data, offset)
                version_offset, next_version = offset + versions, 1
                while next_version:
                    _, _, _, version, next_version = self._unpack("IHHII", data, version_offset)
                    yield names.string_at(library), names.string_at(version)
                    version_offset += next_version
                    if (count := count + 1) == MAX_ENTRIES:
                        raise Unreadable(f"it needs more than {MAX_ENTRIES} symbol versions")
                offset += next_library

    def gnu_properties(self) -> Iterator[tuple[int, int]]:
        """Yield the type of each GNU property, with its first four bytes as a number."""
        alignment = 8 if self.is_wide else 4
        for segment in self._segments(_PT_NOTE):
            data = self._window.read(segment.start, segment.size)
            offset = 0
            while offset + 12 <= len(data):
                name_size, size, kind = self._unpack("III", data, offset)
                name_start = offset + 12
                start = name_start + _padded(name_size, 4)
                offset = start + _padded(size, 4)
                name = data[name_start : name_start + name_size]
                if kind == _NT_GNU_PROPERTY_TYPE_0 and name == b"GNU\0":
                    yield from self._properties(data[start : start + size], alignment)

    def _properties(self, content: bytes, alignment: int) -> Iterator[tuple[int, int]]:
        offset = 0
        while offset + 12 <= len(content):
            kind, size, value = self._unpack("III", content, offset)
            if size >= 4:
                yield kind, value
            offset += 8 + _padded(size, alignment)

    def _segments(self, kind: int) -> Iterator[_Segment]:
        form = struct.Struct(self._byte_order + ("IIQQQQQQ" if self.is_wide else "IIIIIIII"))
        count = self._segment_count
        for row in self._rows(form, self._segments_start, self._segment_size, count):
            if row[0] == kind:
                # The flags come second in a row of a 64-bit file.
                fields = row[2:] if self.is_wide else row[1:]
                yield _Segment(kind, start=fields[0], address=fields[1], size=fields[3])

    def _offset_of(self, address: int) -> int:
        """Return the offset in the file of the byte loaded to an address."""
        for segment in self._segments(_PT_LOAD):
            if segment.address <= address < segment.address + segment.size:
                return segment.start + address - segment.address
        raise Unreadable("the string table with the names of its libraries is missing")

    def _rows(
        self, form: struct.Struct, start: int, size: int, count: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield the rows of a table.

        :param size: bytes of a row, of which `form` may read only the beginning.
        """
        if count and size < form.size:
            raise Unreadable("the rows of one of its tables are too short")
        if count > MAX_ENTRIES:
            raise Unreadable(f"one of its tables has more than {MAX_ENTRIES} entries")
        data = self._window.read(start, size * count)
        for number in range(count):
            yield form.unpack_from(data, number * size)

    def _unpack(self, form: str, data: bytes, offset: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(self._byte_order + form, data, offset)
        except struct.error:
            raise Unreadable("one of its tables points past its own end") from None


class _StringTable:
    """A table of strings that end with a NUL.

    :param size: bytes of the table; only the beginning of a long one is in memory.
    """

    _MAX_IN_MEMORY = 1 << 16

    def __init__(self, window: Window, start: int, size: int) -> None:
        self._window, self._start = window, start
        self._data = window.read_some(start, min(max(size, 0), self._MAX_IN_MEMORY))

    def string_at(self, offset: int, max_size: int = 4096) -> str:
        """Return the string at an offset."""
        end = self._data.find(b"\0", offset)
        if end < 0 or offset < 0:
            return self._window.text(self._start + offset, max_size)
        return printable(self._data[offset:end])


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
