"""Read the binaries in a wheel, or a single binary file.

Each binary is unpacked once, a large one to a temporary file. Members that have the suffix of a
text file, or do not begin like a binary, are not unpacked.
"""

from __future__ import annotations

import io
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from wheelfit.errors import reporting_os_errors
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries import elf, fatbin, macho, pe
from wheelfit.wheels.binaries.bounded_reader import (
    FACTS_LIMITS,
    SYMBOLS_LIMITS,
    Unreadable,
    Window,
    collect_items,
)
from wheelfit.wheels.binaries.elf_layout import ElfLayout
from wheelfit.wheels.binaries.facts import Binaries, Binary, Format, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wheelfit.wheels.binaries.elf import Symbols
    from wheelfit.wheels.zip_directory import Member

_TEXT_SUFFIXES = frozenset(
    """
    bib c cc cfg cl cmake conf cpp css csv cu cuh cxx f f90 gif h hpp html hxx ico inc ini inl ipp
    ipynb ispc jpeg jpg js json license lock map md mo pc pkl po png proto pth pxd pxi py pyc pyi
    pyx qml rst sh svg tcl toml ts ttf tsv txt wav woff woff2 xml yaml yml
    """.split()  # noqa: SIM905  # a list of words is read more easily as text
)
"""Suffixes of files that are not binaries; of other files the first bytes are read."""
_MAX_SIZE_IN_MEMORY = 32 << 20
"""Bytes of a file that is unpacked in memory; several threads may each unpack one."""
_MAX_SIZE = 8 << 30
_FIRST_SIZE = 64
_MAX_PTX_SIZE = 1 << 20


def binaries_of(
    archive: WheelArchive,
    *,
    is_wanted: Callable[[Member], bool] = lambda _member: True,
    add_facts: Callable[[Binary, BinaryIO], Binary] = lambda binary, _file: binary,
) -> Binaries:
    """Return the binaries of a wheel (B-60); contradictions in a binary are among its faults.

    :raises InvalidWheel: a member is damaged.
    :raises FileProblem: there is no space for unpacked files.
    """
    binaries = []
    for member, file in unpacked_binaries(archive, is_wanted=is_wanted):
        binary = read_binary(file, member.name)
        if binary is not None:
            binaries.append(add_facts(binary, file))
    return Binaries(tuple(binaries))


def unpacked_binaries(
    archive: WheelArchive, *, is_wanted: Callable[[Member], bool] = lambda _: True
) -> Iterator[tuple[Member, BinaryIO]]:
    """Yield possible binaries with their content, as a file that is closed before the next one."""
    for member in archive.members:
        if not member.is_folder and not _is_text(member.name) and is_wanted(member):
            file = _unpack(archive, member)
            if file is not None:
                with file:
                    yield member, file


def binary_files(path: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Yield name and content of possible binaries in a wheel, or of a single file.

    :raises InvalidWheel: the wheel is not valid.
    :raises FileProblem: it cannot be read, or there is no space.
    """
    if path.suffix == ".whl":
        with WheelArchive(path) as archive:
            for member, file in unpacked_binaries(archive):
                yield member.name, file
        return
    with reporting_os_errors("the file cannot be read", where=str(path)), path.open("rb") as file:
        yield path.name, file


def _is_text(name: str) -> bool:
    _, dot, suffix = name.rpartition("/")[2].rpartition(".")
    return bool(dot) and suffix.lower() in _TEXT_SUFFIXES


def _unpack(archive: WheelArchive, member: Member) -> BinaryIO | None:
    """Return the content of a member; None if its first bytes are not those of a binary."""
    first = archive.beginning(member.name)
    if _kind(first, member.name) is None:
        return None
    if member.size < _MAX_SIZE_IN_MEMORY:
        return io.BytesIO(archive.read(member.name))
    from tempfile import TemporaryFile

    with reporting_os_errors(
        f"{member.name!r} cannot be unpacked",
        where=archive.where,
        hint="make room, or set TMPDIR to another folder",
    ):
        file: BinaryIO = TemporaryFile()  # noqa: SIM115
        try:
            # Of a very large member only the beginning is read.
            is_small = member.size <= _MAX_SIZE
            file.writelines(archive.chunks(member.name) if is_small else [first])
        except BaseException:
            file.close()
            raise
    return file


def _kind(first: bytes, name: str) -> Format | None:
    """Return the format of a file by its first bytes and its name; None if it is no binary."""
    if first.startswith(elf.MAGIC):
        return Format.ELF
    if first[:4] in macho.MAGICS:
        return Format.MACHO
    if first.startswith(fatbin.MAGIC):
        return Format.FATBIN
    if first.startswith(pe.MAGIC):
        return Format.PE
    if name.endswith(".ptx"):
        return Format.PTX
    return None


def read_binary(file: BinaryIO, name: str) -> Binary | None:
    """Return the facts about a binary file; None if it is not a binary."""
    window = Window(file, FACTS_LIMITS)
    kind = _kind(window.read_some(0, _FIRST_SIZE), name)
    if kind is None:
        return None
    try:
        match kind:
            case Format.ELF:
                return elf.read_elf(window, name)
            case Format.PE:
                return pe.read_pe(window, name)
            case Format.MACHO:
                return macho.read_macho(window, name)
            case Format.PTX:
                text = window.read_some(0, _MAX_PTX_SIZE)
                return Binary(name, kind, window.size, code=(fatbin.ptx_code(text),))
            case _:
                faults: list[str] = []
                code = collect_items(partial(fatbin.read_images, window, 0, window.size), faults)
                return Binary(name, kind, window.size, code=in_order(code), faults=tuple(faults))
    except Unreadable as error:
        return Binary(name, kind, window.size, faults=(str(error),))


def code_sections(file: BinaryIO, binary: Binary) -> list[tuple[int, int]]:
    """Return the positions and sizes of the code sections of an ELF file; none for other formats.

    In other formats such sections may also contain texts.
    """
    if binary.format is Format.ELF:
        with suppress(Unreadable):
            return ElfLayout(Window(file, FACTS_LIMITS)).code_sections()
    return []


def symbols_in(file: BinaryIO, only: frozenset[str] | None = None) -> Symbols:
    """Return the dynamic symbols of an ELF file."""
    return elf.read_symbols(Window(file, SYMBOLS_LIMITS), only)


_MODULE = ("PyInit_", "PyModExport_")


def python_symbols(file: BinaryIO) -> tuple[str, ...]:
    """Return the Python symbols that an ELF extension module needs, sorted; none for other files.

    Weak symbols, which may be missing, are left out. A file that cannot be read has none.

    :raises NeedsExtra: the library that reads ELF files is not installed.
    """
    try:
        symbols = symbols_in(file)
    except Unreadable:
        return ()
    if not any(symbol.startswith(_MODULE) for symbol in symbols.exported):
        return ()
    names = set(map(elf.name_of, symbols.imported - symbols.weak))
    return tuple(sorted(symbol for symbol in names if symbol.startswith(("Py", "_Py"))))
