"""Functions of an ELF library that the loader and Python call on every processor.

These are initialisers, ``PyInit_NAME``, and the methods and slots of the module that it creates.
Functions that a library selects by the processor are not among them: the library calls those
itself, through pointers or after a check.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.bounded_reader import Unreadable, Window

if TYPE_CHECKING:
    from collections.abc import Iterator


_MAX_TABLE_SIZE = 64 << 20
_NO_END = 1 << 64
_MAX_METHODS = 10_000
"""Entries of one table of methods."""
_MAX_MODULES = 16
"""Modules of one library, and definitions of modules."""
_MAX_SEGMENTS = 100
"""Segments of a valid file; most have ten."""
_MAX_REFERENCES = 10_000
"""Addresses that may be that of a module's definition."""
_MAX_NAME_SIZE = 256

_PROGBITS, _RELA, _DYNSYM, _INIT_ARRAY = 1, 4, 11, 14  # SHT_…
_LOADED, _FRAMES = 1, 0x6474E550  # PT_LOAD, PT_GNU_EH_FRAME
_EXECUTABLE, _ALLOCATED = 4, 2  # SHF_EXECINSTR, SHF_ALLOC
_ABSOLUTE, _GLOBAL, _RELATIVE, _IRELATIVE = 1, 6, 8, 37  # R_X86_64_64, …_GLOB_DAT, …
_GNU_IFUNC = 10  # STT_GNU_IFUNC
_SORTED_TABLE = b"\x01\x1b\x03\x3b"
"""The first bytes of ``.eh_frame_hdr`` with a sorted table of offsets relative to its address."""

_DETECTION_SYMBOLS = (b"__cpu_model", b"__cpu_indicator_init", b"__cpu_features2", b"getauxval")
"""Symbols of a library that detects which processor it runs on."""

# Offsets in PyModuleDef: name, methods, slots. Objects of free-threaded builds are longer.
_LAYOUTS = ((40, 64, 72), (56, 80, 88))
_METHOD_SIZE, _SLOT_SIZE, _PY_MOD_EXEC = 32, 16, 2


@dataclass(frozen=True, slots=True)
class CodeSection:
    """A section with machine code."""

    address: int
    start: int
    """Its position in the file."""
    size: int


@dataclass(frozen=True, slots=True)
class Startup:
    """The functions of a library that are called at start-up."""

    sections: tuple[CodeSection, ...]
    functions: tuple[int, ...] = ()
    """Addresses of all functions, sorted; empty if the library does not list them."""
    records: tuple[int, ...] = ()
    """For each function the address of its record, which has its size."""
    initialisers: frozenset[int] = frozenset()
    """Addresses of functions that the loader calls."""
    modules: tuple[tuple[str, int], ...] = ()
    """Names of modules, with the addresses of their functions ``PyInit_NAME``."""
    detects_processor: bool = False
    """Whether the library detects the processor when it is loaded."""

    def end_of_function(self, address: int) -> int:
        """Return the end of the function at an address, if known."""
        index = bisect_right(self.functions, address)
        return self.functions[index] if index < len(self.functions) else _NO_END


class _LoadedImage:
    """The memory of a library after loading."""

    def __init__(self, window: Window) -> None:
        self._window = window
        if window.read(0, 6) != b"\x7fELF\x02\x01":
            raise Unreadable("it is not an ELF file for 64 bits")
        segments, sections = window.unpack("<QQ", 32)
        size, count, row_size, row_count = window.unpack("<HHHH", 54)
        if count > _MAX_SEGMENTS:
            raise Unreadable(f"it has more than {_MAX_SEGMENTS} segments")
        self.segments = [
            window.unpack("<IIQQQQQQ", segments + size * number) for number in range(count)
        ]
        self.rows = [
            window.unpack("<IIQQQQIIQQ", sections + row_size * n) for n in range(row_count)
        ]
        self.pointers: dict[int, int] = {}

    def offset_of(self, address: int) -> int | None:
        """Return the offset in the file of an address; None: it has none."""
        for kind, _, offset, start, _, size, *_ in self.segments:
            if kind == _LOADED and start <= address < start + size:
                return offset + address - start
        return None

    def pointer(self, address: int) -> int:
        """Return the pointer at an address after loading; 0: none."""
        target = self.pointers.get(address)
        if target is None:
            position = self.offset_of(address)
            target = 0 if position is None else self._window.unpack("<Q", position)[0]
        return target

    def number(self, address: int) -> int:
        """Return the 32-bit integer at an address; 0: none."""
        position = self.offset_of(address)
        return 0 if position is None else self._window.unpack("<I", position)[0]

    def text(self, address: int) -> bytes:
        """Return the text at an address; empty where there is none."""
        position = self.offset_of(address)
        if position is None:
            return b""
        return self._window.read_some(position, _MAX_NAME_SIZE).partition(b"\0")[0]

    def table(self, kind: int) -> Iterator[tuple[int, bytes, int]]:
        """Yield the address, content and link of the loaded sections of a kind."""
        for _, kind_of_row, flags, address, offset, size, link, *_ in self.rows:
            if kind_of_row == kind and flags & _ALLOCATED:
                if size > _MAX_TABLE_SIZE:
                    raise Unreadable(
                        f"one of its tables is larger than {_MAX_TABLE_SIZE >> 20} MiB"
                    )
                yield address, self._window.read(offset, size), link


def read_startup(window: Window) -> Startup:
    """Return the functions of an ELF file for x86-64, with those called by the loader."""
    image = _LoadedImage(window)
    try:
        values, modules, detects_processor = _symbols(image, window)
        detects_processor |= _relocate(image, values)
        sections = tuple(
            CodeSection(address, offset, size)
            for _, kind, flags, address, offset, size, *_ in image.rows
            if kind == _PROGBITS and flags & _EXECUTABLE
        )
        initialisers = {
            image.pointer(address + item_offset)
            for address, data, _ in image.table(_INIT_ARRAY)
            for item_offset in range(0, len(data), 8)
        }
        functions, records = _functions(image, window)
    except struct.error as error:
        raise Unreadable("a table in it ends too early") from error
    initialisers &= set(functions)
    return Startup(
        sections, functions, records, frozenset(initialisers), tuple(modules), detects_processor
    )


def _symbols(image: _LoadedImage, window: Window) -> tuple[list[int], list[tuple[str, int]], bool]:
    """Return the values of dynamic symbols, module initialisers, and whether a CPU is detected."""
    values: list[int] = []
    modules: list[tuple[str, int]] = []
    detects_processor = False
    for _, data, link in image.table(_DYNSYM):
        if link >= len(image.rows):
            raise Unreadable("its symbols have no names")
        offset, size = image.rows[link][4:6]
        names = window.read(offset, min(size, _MAX_TABLE_SIZE))
        for start, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", data):
            values.append(value)
            detects_processor |= info & 0xF == _GNU_IFUNC
            if section == 0 and names.startswith(_DETECTION_SYMBOLS, start):
                detects_processor = True
            elif section and names.startswith(b"PyInit_", start) and len(modules) < _MAX_MODULES:
                name = names[start : names.find(b"\0", start)].removeprefix(b"PyInit_")
                modules.append((name.decode("ascii", "replace"), value))
    return values, modules, detects_processor


def _relocate(image: _LoadedImage, values: list[int]) -> bool:
    """Add the pointers that the loader writes; return whether there are IFUNC relocations."""
    has_ifunc = False
    for _, data, _ in image.table(_RELA):
        for address, info, addend in struct.iter_unpack("<QQq", data):
            kind = info & 0xFFFFFFFF
            if kind == _RELATIVE:
                image.pointers[address] = addend
            elif kind in (_ABSOLUTE, _GLOBAL) and info >> 32 < len(values):
                value = values[info >> 32]
                image.pointers[address] = value + (addend if value and kind == _ABSOLUTE else 0)
            has_ifunc |= kind == _IRELATIVE
    return has_ifunc


def _functions(image: _LoadedImage, window: Window) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the addresses of functions in ``.eh_frame_hdr``, and of their records."""
    for kind, _, offset, address, _, size, *_ in image.segments:
        if kind != _FRAMES or size < 12 or window.read(offset, 4) != _SORTED_TABLE:
            continue
        (count,) = window.unpack("<I", offset + 8)
        if 8 * count > min(size - 12, _MAX_TABLE_SIZE):
            raise Unreadable("its table of functions is longer than its segment")
        rows = struct.unpack(f"<{2 * count}i", window.read(offset + 12, 8 * count))
        pairs = sorted(zip(rows[::2], rows[1::2], strict=True))
        return (
            tuple(address + start for start, _ in pairs),
            tuple(address + record for _, record in pairs),
        )
    return (), ()


def with_function_ends(window: Window, startup: Startup, functions: frozenset[int]) -> Startup:
    """Return the start-up functions of a library with the ends of some functions added.

    A function may be followed by assembler code, which no table lists.
    """
    if not functions:
        return startup  # not an ELF file, or one without a table of functions
    image = _LoadedImage(window)
    ends = set()
    for address in functions:
        record = startup.records[bisect_left(startup.functions, address)]
        position = image.offset_of(record)
        if position is None:
            continue
        # Length, offset of the common part, start of the function relative to this field, its size.
        _, _, start, size = window.unpack("<IIiI", position)
        if record + 8 + start == address:
            ends.add(address + size)
    return replace(startup, functions=tuple(sorted(ends.union(startup.functions))), records=())


def module_functions(
    window: Window, startup: Startup, referenced_addresses: frozenset[int]
) -> frozenset[int]:
    """Return the functions that Python calls: module initialisers, methods and slots.

    :param referenced_addresses: the addresses to which ``PyInit_NAME`` functions refer, among them
        those of the definitions of modules.
    """
    if not startup.modules:
        return frozenset()
    image = _LoadedImage(window)
    addresses = {address for _, address in startup.modules}
    try:
        values, _, _ = _symbols(image, window)
        _relocate(image, values)
        names = {name.encode() for name, _ in startup.modules}
        modules_left = _MAX_MODULES
        for address in sorted(referenced_addresses)[:_MAX_REFERENCES]:
            for name, methods, slots in _LAYOUTS:
                text = image.text(image.pointer(address + name))
                if text.rpartition(b".")[2] in names and modules_left:
                    modules_left -= 1
                    addresses.update(_methods(image, image.pointer(address + methods)))
                    addresses.update(_slots(image, image.pointer(address + slots)))
    except struct.error as error:
        raise Unreadable("a table in it ends too early") from error
    return frozenset(addresses & set(startup.functions))


def _methods(image: _LoadedImage, table: int) -> Iterator[int]:
    for number in range(_MAX_METHODS):
        row = table + number * _METHOD_SIZE
        if not table or not image.pointer(row):
            return
        yield image.pointer(row + 8)


def _slots(image: _LoadedImage, table: int) -> Iterator[int]:
    for number in range(_MAX_METHODS):
        row = table + number * _SLOT_SIZE
        kind = image.number(row) if table else 0
        if not kind:
            return
        if kind == _PY_MOD_EXEC:
            yield image.pointer(row + 8)
