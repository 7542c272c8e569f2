"""Read ELF files: their targets, dependencies, and exported and imported symbols.

Only this module imports pyelftools, for symbols and debug information. Its many objects make it
slow for hundreds of libraries, so the facts needed of every library are read by
`wheelfit.wheels.binaries.elf_layout`. pyelftools trusts a file, so it reads it through a
`wheelfit.wheels.binaries.bounded_reader.Window`, which counts reads; any error of it means that the
file is not valid. `NeedsExtra` is raised where it is not installed.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from wheelfit.errors import NeedsExtra
from wheelfit.wheels.binaries import fatbin, offload
from wheelfit.wheels.binaries.bounded_reader import (
    Stream,
    Unreadable,
    Window,
    collect_items,
    printable,
)
from wheelfit.wheels.binaries.elf_layout import MAX_ENTRIES, ElfLayout
from wheelfit.wheels.binaries.facts import (
    ANY_SUFFIX,
    Binary,
    CodeKind,
    DeviceCode,
    Format,
    IsaLevels,
    SymbolVersion,
    in_order,
    level_of_bits,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from elftools.elf.elffile import ELFFile


MAGIC = b"\x7fELF"

MACHINES = {
    62: "x86_64",
    3: "i686",
    183: "aarch64",
    40: "armv7l",
    21: "ppc64",
    22: "s390x",
    243: "riscv64",
    258: "loongarch64",
}
"""Architectures by ``e_machine``."""
_CUDA = 190
_NEEDED_LEVELS = 0xC0008002
_DEBUG = (".debug_", ".zdebug_")


def read_elf(window: Window, member: str) -> Binary:
    """Return the description of an ELF file."""
    layout = ElfLayout(window)
    if layout.machine == _CUDA:
        return Binary(member, Format.CUBIN, window.size, code=(_cubin(window),))
    return _binary(window, layout, member)


def _open(window: Window) -> ELFFile:
    try:
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import Section
    except ImportError:
        raise NeedsExtra("build", "pyelftools") from None

    class File(ELFFile):
        """An ELF file whose hash tables are not read.

        To list any sections pyelftools reads them entry by entry, which takes minutes for a
        million symbols.
        """

        def _make_elf_hash_section(self, sectionheader: Any, name: str) -> Any:
            return Section(sectionheader, name, self)

        def _make_gnu_hash_section(self, sectionheader: Any, name: str) -> Any:
            return Section(sectionheader, name, self)

    return File(Stream(window))  # type: ignore[arg-type]  # all it needs of a file


@contextmanager
def _library_errors() -> Iterator[None]:
    """Raise `Unreadable` for any error of pyelftools about a faulty file."""
    try:
        yield
    except (Unreadable, NeedsExtra):
        raise
    except Exception as error:  # pyelftools checks little, so any kind may come
        cause: BaseException | None = error
        while cause is not None:  # pyelftools wraps errors of its stream in its own
            if isinstance(cause, Unreadable):
                raise cause from None
            cause = cause.__context__
        raise Unreadable(f"it is not a valid ELF file ({type(error).__name__})") from error


def _machine(layout: ElfLayout) -> str:
    name = MACHINES.get(layout.machine, str(layout.machine))
    if name == "ppc64" and layout.is_little:
        return "ppc64le"
    if name == "x86_64" and not layout.is_wide:
        return "x32"
    if name == "riscv64" and not layout.is_wide:
        return "riscv32"
    return name


def _cubin(window: Window) -> DeviceCode:
    """Return the target of a file of machine code.

    Since version 8 of its own format the architecture is in the second byte of the flags. Not all
    compilers state ``a`` or ``f`` there.
    """
    (version,) = window.unpack("<B", 8)
    is_wide = window.unpack("<B", 4) == (2,)
    (flags,) = window.unpack("<I", 48 if is_wide else 36)
    number = (flags >> 8) & 0xFF if version >= 8 else flags & 0xFF
    if not number:
        raise Unreadable("it does not name its GPU architecture")
    return DeviceCode(CodeKind.MACHINE, number, ANY_SUFFIX if number >= 90 else "")


def _tables(file: ELFFile, kind: str) -> Iterator[Any]:
    """Yield sections of a kind, as untyped objects of pyelftools."""
    yield from file.iter_sections(kind)


def _binary(window: Window, layout: ElfLayout, member: str) -> Binary:
    """Read a file part by part; a fault in one part leaves the others."""
    faults: list[str] = []
    machine = _machine(layout)
    numbered = collect_items(layout.sections, faults)
    # `DynamicEntries` is a tuple of three lists; after a fault there are none.
    needed, rpath, names = collect_items(layout.dynamic, faults) or ([], [], [])
    versions = collect_items(lambda: layout.needed_versions(numbered), faults)
    bits = dict(collect_items(layout.gnu_properties, faults)) if machine == "x86_64" else {}
    code: list[DeviceCode] = []
    unlinked: list[DeviceCode] = []
    targets: list[str] = []
    sections = [section for section in numbered if section.is_in_file]
    for section in sections:
        name, span = section.name, (section.start, section.size)
        if name in fatbin.LOADED_SECTIONS:
            code += collect_items(partial(fatbin.read_images, window, *span), faults)
        elif name in fatbin.UNLINKED_SECTIONS:
            unlinked += collect_items(partial(fatbin.read_images, window, *span), faults)
        elif name in offload.SECTIONS:
            targets += collect_items(partial(offload.read_targets, window, *span), faults)
    return Binary(
        member,
        Format.ELF,
        window.size,
        (machine,),
        names[0] if names else None,
        tuple(needed),
        tuple(rpath),
        tuple(sorted({SymbolVersion(*version) for version in versions})),
        IsaLevels(level_of_bits(bits.get(_NEEDED_LEVELS, 0))),
        code=in_order(code),
        debug=sum(section.size for section in sections if section.name.startswith(_DEBUG)),
        unlinked=in_order(unlinked),
        targets=tuple(sorted(set(targets))),
        faults=tuple(dict.fromkeys(faults)),
    )


# --- symbols ------------------------------------------------------------------------------


class Symbols(Struct, frozen=True):
    """The dynamic symbols of a library or a module."""

    soname: str | None
    needed: tuple[str, ...]
    exported: frozenset[str]
    """Defined symbols; those with a version as ``memcpy@GLIBC_2.14``."""
    imported: frozenset[str]
    """Undefined symbols, likewise."""
    weak: frozenset[str]
    """The imported symbols that may be missing."""
    providers: tuple[tuple[str, str], ...] = ()
    """Imported symbols with a version, each with the library that must define it."""
    has_debug: bool = False
    """Whether types can be compared (DWARF); most published libraries are stripped."""


def name_of(symbol: str) -> str:
    """Return the name of a symbol without its version.

    >>> name_of("memcpy@GLIBC_2.14")
    'memcpy'
    """
    return symbol.partition("@")[0]


def read_symbols(window: Window, only: frozenset[str] | None = None) -> Symbols:
    """Return the dynamic symbols of an ELF file.

    :param only: names of the symbols to read; None: all.
    """
    with _library_errors():
        return _symbols(window, _open(window), only)


def _symbols(window: Window, file: ELFFile, only: frozenset[str] | None) -> Symbols:
    dynamic = ElfLayout(window).dynamic()
    table = next(_tables(file, "SHT_DYNSYM"), None)
    if table is None:
        raise Unreadable("the table of dynamic symbols is missing")
    version_names = dict(_version_names(file))
    exported, imported, weak = set(), set(), set()
    providers = {}
    for entry in _entries(window, file, table, only):
        if not entry.name or entry.binding not in _VISIBLE_BINDINGS:
            continue
        version, library = version_names.get(entry.version & _VERSION, ("", ""))
        symbol = f"{entry.name}@{version}" if version else entry.name
        if entry.section == _UNDEFINED:
            imported.add(symbol)
            if entry.binding == _WEAK:
                weak.add(symbol)
            if library:
                providers[symbol] = library
        elif entry.visibility in _EXPORTED_VISIBILITIES:
            exported.add(symbol)
    return Symbols(
        dynamic.sonames[0] if dynamic.sonames else None,
        tuple(dynamic.needed),
        frozenset(exported),
        frozenset(imported),
        frozenset(weak),
        tuple(sorted(providers.items())),
        any(section.name == ".debug_info" for section in file.iter_sections()),
    )


_WEAK = 2
_VISIBLE_BINDINGS = (1, _WEAK, 10)
"""Bindings of symbols visible to other files: global, weak, unique."""
_EXPORTED_VISIBILITIES = (0, 3)
"""Visibilities of symbols that other files may use: default, protected."""
_UNDEFINED = 0
_VERSION = 0x7FFF


class _Entry(NamedTuple):
    """An entry of a table of symbols."""

    name: str
    binding: int
    visibility: int
    section: int
    version: int


def _entries(
    window: Window, file: ELFFile, table: Any, only: frozenset[str] | None
) -> Iterator[_Entry]:
    """Yield the entries of a table of symbols, which is read as a whole: it may have a million."""
    encoded_names = None if only is None else frozenset(row.encode() for row in only)
    order, is_64 = "<" if file.little_endian else ">", file.elfclass == 64
    row_format = struct.Struct(f"{order}{'IBBHQQ' if is_64 else 'IIIBBH'}")
    if table["sh_entsize"] != row_format.size:
        raise Unreadable(f"its symbols have {table['sh_entsize']} bytes")
    data = window.read(table["sh_offset"], table["sh_size"])
    string_table = file.get_section(table["sh_link"])
    names = window.read(string_table["sh_offset"], string_table["sh_size"])
    versions: Sequence[int] = ()
    if (numbers := next(_tables(file, "SHT_GNU_versym"), None)) is not None:
        raw = window.read(numbers["sh_offset"], numbers["sh_size"])
        versions = struct.unpack(f"{order}{len(raw) // 2}H", raw[: len(raw) // 2 * 2])
    bytes_left = _MAX_NAME_SHARE * len(names) + _ADDITIONAL_BYTES
    count = len(data) // row_format.size
    for number, row in enumerate(row_format.iter_unpack(data[: count * row_format.size])):
        start, info, other, section = row[:4] if is_64 else (row[0], *row[3:])
        end = names.find(b"\0", start, start + bytes_left)
        if end < 0:
            raise Unreadable("the name of a symbol does not end, or is outside of its table")
        bytes_left -= end - start  # names that share an end count separately
        name = names[start:end]
        if encoded_names is not None and name not in encoded_names:
            continue
        version = versions[number] if number < len(versions) else 0
        yield _Entry(printable(name), info >> 4, other & 3, section, version)


_MAX_NAME_SHARE, _ADDITIONAL_BYTES = 4, 1 << 20
"""All names of symbols together have at most so many times the bytes of their table, as names can
share an end, plus this number of bytes."""


def _version_names(file: ELFFile) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield numbers of versions with their names, and the libraries that define them."""
    for section in _tables(file, "SHT_GNU_verneed"):
        for library, needed in section.iter_versions():
            for auxiliary in needed:
                yield auxiliary["vna_other"], (printable(auxiliary.name), printable(library.name))
    for section in _tables(file, "SHT_GNU_verdef"):
        for version, names in section.iter_versions():
            if version["vd_flags"] & 1:  # the name of the library itself
                continue
            with suppress(StopIteration):
                yield version["vd_ndx"], (printable(next(names).name), "")


# --- debug information --------------------------------------------------------------------


def read_producers(window: Window) -> tuple[tuple[str, str], ...]:
    """Return the units of compilation in debug information, with the compiler of each.

    :return: file name of the source and ``DW_AT_producer``, one pair for each unit; empty where
        there is no debug information.
    """
    with _library_errors():
        file = _open(window)
        if not file.has_dwarf_info(strict=True):
            return ()
        debug = file.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        producers = []
        for number, unit in enumerate(debug.iter_CUs()):
            if number == MAX_ENTRIES:
                break
            attributes = unit.get_top_DIE().attributes
            name, producer = (
                printable(attributes[key].value) if key in attributes else ""
                for key in ("DW_AT_name", "DW_AT_producer")
            )
            producers.append((name.rpartition("/")[2], producer))
        return tuple(producers)
