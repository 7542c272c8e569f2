"""Small binaries with the content that a test needs; they cannot be run.

ELF files have a dynamic section, versions, notes and sections as linkers write them; PE and Mach-O
files have their headers and the libraries they load.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_PAGE = 0x1000
_SEGMENTS = 2
"""Program headers of every ELF file: one loads the whole file, one is for the dynamic section."""
# Values of elf.h.
_SHT_PROGBITS, _SHT_STRTAB, _SHT_DYNAMIC, _SHT_NOTE, _SHT_DYNSYM = 1, 3, 6, 7, 11
_SHT_GNU_HASH, _SHT_GNU_VERNEED = 0x6FFFFFF6, 0x6FFFFFFE
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_SONAME, _DT_RUNPATH = 0, 1, 5, 10, 14, 29
_GLOBAL_FUNCTION = 0x12
"""The binding and type of a symbol."""
_FAT_BINARY_MAGIC = 0xBA55ED50
_FAT_BINARY_KINDS = {"compute": 1, "sm": 2, "lto": 8}
_IMAGE_HEADER_SIZE = 64
# Values of mach-o/loader.h.
_LC_LOAD_DYLIB, _LC_ID_DYLIB, _LC_SEGMENT_64, _LC_BUILD_VERSION = 0xC, 0xD, 0x19, 0x32
Image = str
"""Code for GPUs, such as ``sm_90a``, ``compute_90 8.7`` or ``lto_90``."""


def fat_binary(*images: Image) -> bytes:
    """Return a container as NVIDIA's compiler writes it, with dummy code.

    >>> len(fat_binary("sm_90a"))
    88

    :param images: as ``sm_90a``, or ``compute_90 8.7`` with the version of PTX.
    """
    entries = b"".join(map(_image, images))
    return struct.pack("<IHHQ", _FAT_BINARY_MAGIC, 1, 16, len(entries)) + entries


def _image(text: Image) -> bytes:
    name, _, version = text.partition(" ")
    prefix, _, architecture = name.partition("_")
    kind = _FAT_BINARY_KINDS[prefix]
    number = int(architecture.rstrip("af"))
    flags = 0x11 | {"a": 0x100000, "f": 0x200000}.get(architecture.lstrip("0123456789"), 0)
    # Machine code has no version of PTX. Its value there has no meaning.
    major, minor = map(int, (version or "1.8").split("."))
    code = b"\x7fcode\0\0\0"
    # Kind, version, size of the header, size of the code, two sizes of compressed code, version of
    # PTX, architecture, and the position and size of a name.
    sizes = (_IMAGE_HEADER_SIZE, len(code), 0, 0)
    head = struct.pack("<HHIQIIHHIII", kind, 0x101, *sizes, minor, major, number, 0, 0)
    return (head + struct.pack("<Q", flags)).ljust(_IMAGE_HEADER_SIZE, b"\0") + code


def offload_bundle(*targets: str) -> bytes:
    """Return a bundle for AMD's GPUs as clang writes it, with a page of zeros as code.

    >>> len(offload_bundle("gfx90a:xnack+"))
    8192

    :param targets: as ``gfx90a``.
    """
    names = [b"host-x86_64-unknown-linux--"]
    names += [b"hipv4-amdgcn-amd-amdhsa--" + target.encode() for target in targets]
    table = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    for number, name in enumerate(names):
        # The host, number 0, has no code. The table fills the first page, and each code one page.
        offset, size = (_PAGE * number, _PAGE) if number else (_PAGE, 0)
        table += struct.pack("<QQQ", offset, size, len(name)) + name
    return table.ljust(_PAGE, b"\0") + bytes(_PAGE * len(targets))


def elf_file(
    *,
    machine: int = 62,
    soname: str = "",
    needed: Iterable[str] = (),
    runpath: str = "",
    versions: Mapping[str, Sequence[str]] | None = None,
    levels_needed: int = 0,
    exports: Iterable[str] = (),
    imports: Iterable[str] = (),
    sections: Mapping[str, bytes] | None = None,
    hash_buckets: int = 0,
) -> bytes:
    """Return a 64-bit ELF file.

    :param machine: 62 is x86-64, 183 is AArch64.
    :param runpath: the search path for libraries.
    :param versions: the symbol versions that it needs, such as ``GLIBC_2.17``, by library.
    :param levels_needed: bits of the x86-64 levels that it needs: 0b111 is v3.
    :param imports: names of undefined symbols.
    :param sections: the content of further sections, by name.
    :param hash_buckets: the number of buckets of its symbol hash table; 0: it has none.
    """
    names = _StringTable()
    dynamic = [(_DT_NEEDED, names.add(name)) for name in needed]
    if soname:
        dynamic.append((_DT_SONAME, names.add(soname)))
    if runpath:
        dynamic.append((_DT_RUNPATH, names.add(runpath)))
    verneed, count = _verneed(versions or {}, names)
    symbols = bytes(24)
    for name in exports:
        symbols += struct.pack("<IBBHQQ", names.add(name), _GLOBAL_FUNCTION, 0, 1, _PAGE, 8)
    for name in imports:
        symbols += struct.pack("<IBBHQQ", names.add(name), _GLOBAL_FUNCTION, 0, 0, 0, 0)
    strings_offset = 64 + 56 * (_SEGMENTS + bool(levels_needed))  # .dynstr is the first section
    dynamic += [(_DT_STRTAB, strings_offset), (_DT_STRSZ, len(names.data)), (_DT_NULL, 0)]
    dynamic_table = b"".join(struct.pack("<QQ", *row) for row in dynamic)
    parts = [
        _Section(".dynstr", _SHT_STRTAB, names.data),
        _Section(".dynsym", _SHT_DYNSYM, symbols, 1, 1, 24),
        _Section(".dynamic", _SHT_DYNAMIC, dynamic_table, 1, 0, 16),
    ]
    if hash_buckets:
        table = struct.pack("<IIIIQ", hash_buckets, 1, 1, 0, 0) + bytes(4 * (hash_buckets + 1))
        parts.append(_Section(".gnu.hash", _SHT_GNU_HASH, table, 2))
    if verneed:
        parts.append(_Section(".gnu.version_r", _SHT_GNU_VERNEED, verneed, 1, count))
    if levels_needed:
        parts.append(_Section(".note.gnu.property", _SHT_NOTE, _note(levels_needed)))
    parts += [_Section(name, _SHT_PROGBITS, content) for name, content in (sections or {}).items()]
    return _elf_layout(parts, machine)


class _Section(NamedTuple):
    """A section of an ELF file."""

    name: str
    kind: int
    content: bytes
    link: int = 0
    """The number of another section that it refers to."""
    info: int = 0
    entry_size: int = 0
    """Bytes of each entry of a table; 0: the section is not a table."""


class _StringTable:
    """A string table, whose strings end with a zero byte."""

    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, name: str) -> int:
        """Add a string, and return its offset."""
        start = len(self.data)
        self.data += name.encode() + b"\0"
        return start


def _verneed(versions: Mapping[str, Sequence[str]], names: _StringTable) -> tuple[bytes, int]:
    table = b""
    for number, (library, version_names) in enumerate(versions.items()):
        auxiliary = b""
        for index, name in enumerate(version_names):
            next_offset = 16 if index + 1 < len(version_names) else 0
            auxiliary += struct.pack("<IHHII", 0, 0, 2 + index, names.add(name), next_offset)
        next_offset = 16 + len(auxiliary) if number + 1 < len(versions) else 0
        head = struct.pack("<HHIII", 1, len(version_names), names.add(library), 16, next_offset)
        table += head + auxiliary
    return table, len(versions)


def _note(levels_needed: int) -> bytes:
    properties = struct.pack("<IIII", 0xC0008002, 4, levels_needed, 0)
    return struct.pack("<III", 4, len(properties), 5) + b"GNU\0" + properties


def _elf_layout(sections: Sequence[_Section], machine: int) -> bytes:
    """Return the file with sections in sequence, and the tables of their positions."""
    names = _StringTable()
    count = _SEGMENTS + sum(section.kind == _SHT_NOTE for section in sections)
    body_offset = 64 + 56 * count
    body = b""
    rows = [bytes(64)]
    segments = b""
    for name, kind, content, link, info, entry_size in sections:
        padding = -(body_offset + len(body)) % 8  # each section begins at a multiple of 8
        body += bytes(padding)
        start = body_offset + len(body)
        body += content
        rows.append(
            struct.pack(
                "<IIQQQQIIQQ",
                *(names.add(name), kind, 2, start, start, len(content), link, info, 8, entry_size),
            )
        )
        if kind in (_SHT_DYNAMIC, _SHT_NOTE):
            segment = _PT_DYNAMIC if kind == _SHT_DYNAMIC else _PT_NOTE
            fields = (start, start, start, len(content), len(content), 8)
            segments += struct.pack("<IIQQQQQQ", segment, 4, *fields)
    start = body_offset + len(body)
    name_offset = names.add(".shstrtab")
    rows.append(
        struct.pack(
            "<IIQQQQIIQQ", name_offset, _SHT_STRTAB, 0, 0, start, len(names.data), 0, 0, 1, 0
        ),
    )
    body += names.data
    body += bytes(-(body_offset + len(body)) % 8)
    end = body_offset + len(body)
    load_segment = struct.pack("<IIQQQQQQ", _PT_LOAD, 5, 0, 0, 0, end, end, _PAGE)
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH",
        *(3, machine, 1, 0, 64, end, 0, 64, 56, count, 64, len(rows), len(rows) - 1),
    )
    return head + load_segment + segments + body + b"".join(rows)


def pe_file(*, needed: Sequence[str] = (), sections: Mapping[str, bytes] | None = None) -> bytes:
    """Return a PE file for x86-64."""
    machine = 0x8664
    address = 0x1000
    table = b""
    strings = b""
    first_string = address + 20 * (len(needed) + 1)
    for name in needed:
        table += struct.pack("<IIIII", 0, 0, 0, first_string + len(strings), 0x2000)
        strings += name.encode() + b"\0"
    imports = table + bytes(20) + strings
    parts = {".idata": imports, **(sections or {})}
    directories = bytes(8) + struct.pack("<II", address, len(imports)) + bytes(14 * 8)
    optional = struct.pack("<H", 0x20B).ljust(108, b"\0") + struct.pack("<I", 16) + directories
    head = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40) + b"PE\0\0"
    head += struct.pack("<HHIIIHH", machine, len(parts), 0, 0, 0, len(optional), 0x2022) + optional
    start = len(head) + 40 * len(parts)
    rows = b""
    body = b""
    for name, content in parts.items():
        body += bytes(-(start + len(body)) % 8)
        row = (name.encode()[:8], len(content), address, len(content), start + len(body))
        rows += struct.pack("<8sIIII", *row).ljust(40, b"\0")
        body += content
        address += (len(content) + 0xFFF) // 0x1000 * 0x1000
    return head + rows + body


def macho_file(
    *,
    machine: int = 0x0100000C,
    name: str = "",
    needed: Iterable[str] = (),
    minimum: tuple[int, int] | None = None,
    debug: int = 0,
) -> bytes:
    """Return a Mach-O file for 64 bits.

    :param machine: 0x0100000C is ARM64, 0x01000007 is x86-64.
    :param minimum: the oldest macOS that it supports.
    :param debug: bytes of debug information in its load command.
    """
    commands = [_library(_LC_LOAD_DYLIB, library) for library in needed]
    if name:
        commands.append(_library(_LC_ID_DYLIB, name))
    if minimum is not None:
        version = minimum[0] << 16 | minimum[1] << 8
        commands.append(struct.pack("<IIIIII", _LC_BUILD_VERSION, 24, 1, version, version, 0))
    if debug:
        sizes = struct.pack("<4Q4I", 0, 0, 0, debug, 0, 0, 0, 0)
        commands.append(struct.pack("<II16s", _LC_SEGMENT_64, 72, b"__DWARF") + sizes)
    body = b"".join(commands)
    head = (0xFEEDFACF, machine, 0, 6, len(commands), len(body), 0, 0)
    return struct.pack("<8I", *head) + body


def _library(kind: int, name: str) -> bytes:
    text = name.encode() + b"\0"
    text += bytes(-len(text) % 8)
    return struct.pack("<IIIIII", kind, 24 + len(text), 24, 0, 0, 0) + text


def universal_file(*slices: tuple[int, bytes]) -> bytes:
    """Return a universal Mach-O file.

    :param slices: the machine of each, and its file.
    """
    start = 8 + 20 * len(slices)
    head = struct.pack(">II", 0xCAFEBABE, len(slices))
    body = b""
    for machine, content in slices:
        head += struct.pack(">5I", machine, 0, start + len(body), len(content), 0)
        body += content
    return head + body
