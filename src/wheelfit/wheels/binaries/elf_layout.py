"""Read the tables of an ELF file: sections, segments, and dynamic entries.

Each table is read once, because a wheel may have hundreds of libraries. Every offset and count is
taken from the file, so all goes through a `bounded_reader.Window`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.wheels.binaries.bounded_reader import Unreadable, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.wheels.binaries.bounded_reader import Window

LISTED = 10_000
"""Entries of one table that are looked at: sections, libraries, versions, notes."""
_LOAD, _DYNAMIC, _NOTE = 1, 2, 4
_PROGRAM, _NO_BITS, _VERSIONS_NEEDED = 1, 8, 0x6FFFFFFE
_EXECUTABLE = 4  # SHF_EXECINSTR
_MANY_SECTIONS = 0xFFFF
_NEEDED, _STRINGS, _SONAME, _RPATH, _RUNPATH = 1, 5, 14, 15, 29
_GNU_PROPERTY = 5


class Section(NamedTuple):
    """A part of a file."""

    name: str
    kind: int
    """``sh_type``."""
    start: int
    size: int
    link: int
    """The number of another section; of a table of names, where these are."""

    @property
    def is_in_file(self) -> bool:
        """Whether it has content in the file."""
        return self.kind != _NO_BITS


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
            raise Unreadable("it is not a sound ELF file")
        self.is_wide = head[4] == 2
        """Whether addresses have 64 bits."""
        self.is_little = head[5] == 1
        """Whether the lowest byte of a number comes first."""
        self._order = "<" if self.is_little else ">"
        form = "HHIQQQIHHHHHH" if self.is_wide else "HHIIIIIHHHHHH"
        if window.size < 16 + struct.calcsize(self._order + form):
            raise Unreadable("it is not a sound ELF file: its header is cut off")
        fields = window.unpack(self._order + form, 16)
        self.machine = fields[1]
        """``e_machine``."""
        self._segments_at, self._sections_at = fields[4], fields[5]
        self._segment_size, self._segment_count = fields[8], fields[9]
        self._section_size, self._section_count, self._names_in = fields[10:]

    def sections(self) -> list[Section]:
        """Return all sections, by their numbers."""
        if not self._sections_at:
            return []
        rows, names_in = self._section_rows()
        if names_in >= len(rows):
            raise Unreadable("the table with the names of its sections is missing")
        names = _Names(self._window, rows[names_in][4], rows[names_in][5])
        return [
            Section(names.at(name), kind, start, size, link)
            for name, kind, _, _, start, size, link in rows
        ]

    def code_sections(self) -> list[tuple[int, int]]:
        """Return the positions and sizes of the sections with machine code."""
        rows, _ = self._section_rows()
        return [
            (start, size)
            for _, kind, flags, _, start, size, _ in rows
            if kind == _PROGRAM and flags & _EXECUTABLE
        ]

    def _section_rows(self) -> tuple[list[tuple[int, ...]], int]:
        """Return the table of sections, and the number of the one with their names."""
        if not self._sections_at:
            return [], 0
        form = struct.Struct(self._order + ("IIQQQQI" if self.is_wide else "IIIIIII"))
        count, names_in = self._section_count, self._names_in
        first = self._window.read(self._sections_at, form.size)
        _, _, _, _, _, size, link = form.unpack(first)
        count = count or size  # where there are more than the header has room for
        names_in = link if names_in == _MANY_SECTIONS else names_in
        return list(self._rows(form, self._sections_at, self._section_size, count)), names_in

    def dynamic(self) -> DynamicEntries:
        """Return the entries of the dynamic section."""
        form = struct.Struct(self._order + ("qQ" if self.is_wide else "iI"))
        entries: list[tuple[int, int]] = []
        for segment in self._segments(_DYNAMIC):
            count = min(segment.size // form.size, LISTED)
            for kind, value in self._rows(form, segment.start, form.size, count):
                if not kind:
                    break
                entries.append((kind, value))
            else:
                if count == LISTED:
                    raise Unreadable("its dynamic section has no end")
        told = DynamicEntries([], [], [])
        wanted = (_NEEDED, _SONAME, _RPATH, _RUNPATH)
        if any(kind in wanted for kind, _ in entries):
            start = self._offset_of(dict(entries).get(_STRINGS, 0))
            names = _Names(self._window, start, self._window.size - start)
            for kind, value in entries:
                if kind == _NEEDED:
                    told.needed.append(names.at(value))
                elif kind == _SONAME:
                    told.sonames.append(names.at(value))
                elif kind in (_RPATH, _RUNPATH):
                    told.rpath.extend(names.at(value, _LONGEST_PATH).split(":"))
        return told

    def needed_versions(self, sections: list[Section]) -> Iterator[tuple[str, str]]:
        """Yield the libraries and their versions of symbols that the file wants."""
        count = 0
        for section in sections:
            if section.kind != _VERSIONS_NEEDED or section.link >= len(sections):
                continue
            names = _Names(self._window, sections[section.link].start, sections[section.link].size)
            data = self._window.read(section.start, section.size)
            at, following = 0, 1
            while following:
                _, _, library, versions, following = self._unpack("HHIII", data, at)
                version_at, next_version = at + versions, 1
                while next_version:
                    fields = self._unpack("IHHII", data, version_at)
                    yield names.at(library), names.at(fields[3])
                    next_version = fields[4]
                    version_at += next_version
                    if (count := count + 1) == LISTED:
                        raise Unreadable("its list of symbol versions has no end")
                at += following

    def gnu_properties(self) -> Iterator[tuple[int, int]]:
        """Yield the kinds of the properties for the loader, with their first four bytes."""
        step = 8 if self.is_wide else 4
        for segment in self._segments(_NOTE):
            data = self._window.read(segment.start, segment.size)
            at = 0
            while at + 12 <= len(data):
                name_size, size, kind = self._unpack("III", data, at)
                name_at = at + 12
                content_at = name_at + _padded(name_size, 4)
                at = content_at + _padded(size, 4)
                if kind != _GNU_PROPERTY or data[name_at : name_at + name_size] != b"GNU\0":
                    continue
                content = data[content_at : content_at + size]
                place = 0
                while place + 12 <= len(content):
                    property_kind, length, value = self._unpack("III", content, place)
                    if length >= 4:
                        yield property_kind, value
                    place += 8 + _padded(length, step)

    def _segments(self, kind: int) -> Iterator[_Segment]:
        form = struct.Struct(self._order + ("IIQQQQQQ" if self.is_wide else "IIIIIIII"))
        count = self._segment_count
        for row in self._rows(form, self._segments_at, self._segment_size, count):
            if row[0] == kind:
                start, address, size = (
                    (row[2], row[3], row[5]) if self.is_wide else (row[1], row[2], row[4])
                )
                yield _Segment(kind, start, address, size)

    def _offset_of(self, address: int) -> int:
        """Return the offset in the file of the byte loaded to an address."""
        for segment in self._segments(_LOAD):
            if segment.address <= address < segment.address + segment.size:
                return segment.start + address - segment.address
        raise Unreadable("the table with the names of its libraries is missing")

    def _rows(
        self, form: struct.Struct, start: int, size: int, count: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield the rows of a table, each possibly longer than the part read."""
        if count and size < form.size:
            raise Unreadable("the rows of a table are too short")
        if count > LISTED:
            raise Unreadable("a table of it has no end")
        data = self._window.read(start, size * count)
        for number in range(count):
            yield form.unpack_from(data, number * size)

    def _unpack(self, form: str, data: bytes, at: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(self._order + form, data, at)
        except struct.error:
            raise Unreadable("a table of it points behind its end") from None


_LONGEST_PATH = 1 << 16
"""Bytes of a list of folders; that of TensorFlow has more than 4096."""


class _Names:
    """A table of texts that zeros end.

    :param start: its offset in the file.
    :param size: bytes of the table; only the beginning of a long one is kept.
    """

    _KEPT = 1 << 16

    def __init__(self, window: Window, start: int, size: int) -> None:
        self._window, self._start = window, start
        self._data = window.read_some(start, min(max(size, 0), self._KEPT))

    def at(self, offset: int, longest: int = 4096) -> str:
        """Return the text at an offset."""
        end = self._data.find(b"\0", offset)
        if end < 0 or offset < 0:
            return self._window.text(self._start + offset, longest)
        return printable(self._data[offset:end])


def _padded(size: int, step: int) -> int:
    return -(-size // step) * step
