"""Count which instructions a library has, by the level of x86-64 that first had them (P-102).

The one importer of iced-x86. Executable sections are decoded from their beginning to their end, as
``objdump`` does it; data among the code may look like instructions. What is found says what is in
the library, and nothing of what runs: many libraries choose when they are loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wheelfit.errors import NeedsExtra
from wheelfit.values import replace
from wheelfit.wheels.binaries import elf, pe
from wheelfit.wheels.binaries.facts import Format
from wheelfit.wheels.binaries.levels import LEVELS
from wheelfit.wheels.binaries.window import FACTS, Allowance, Unreadable, Window

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable
    from typing import BinaryIO

    from wheelfit.wheels.binaries.facts import Binary

__all__ = ["with_instructions"]


def __dir__() -> list[str]:
    return __all__


_PIECE = 4 << 20
_LONGEST = 15
"""Bytes of an instruction at most."""
_CODE = Allowance(100_000, 4 << 30, _PIECE)

# What each level adds; that of v1 every such processor has. LAHF has no feature of its own.
_FIRST_IN = {
    "v2": ("CMPXCHG16B", "POPCNT", "SSE3", "SSSE3", "SSE4_1", "SSE4_2"),
    "v3": ("AVX", "AVX2", "BMI1", "BMI2", "F16C", "FMA", "LZCNT", "MOVBE"),
    "v4": ("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"),
}


def with_instructions(binary: Binary, file: BinaryIO) -> Binary:
    """Return what is known of a binary, with how many instructions of each level it has.

    Of other machines than x86-64, and of Mach-O files, that is not known.

    :param binary: what was read of it.
    :param file: its content.
    :raises NeedsExtra: the disassembler is not installed.
    """
    if "x86_64" not in binary.machines or binary.format not in (Format.ELF, Format.PE):
        return binary
    reader = elf if binary.format is Format.ELF else pe
    try:
        sections = reader.executable_sections(Window(file, FACTS))
        counts = _count(Window(file, _CODE), sections)
    except Unreadable as error:
        return replace(binary, faults=(*binary.faults, str(error)))
    found = tuple((level, counts[level]) for level in LEVELS if counts[level])
    return replace(binary, levels=replace(binary.levels, instructions=found))


def _count(window: Window, sections: Iterable[tuple[int, int]]) -> Counter[str]:
    from collections import Counter  # noqa: PLC0415  # few ask for it

    library = _library()
    codes: Counter[int] = Counter()
    examples: dict[int, Any] = {}
    done = 0
    for start, size in sorted(sections):  # no byte twice, whatever sections say of themselves
        place, stop = max(start, done), start + size
        done = max(done, stop)
        while place < stop:
            piece = window.read(place, min(_PIECE, stop - place))
            place += _decode(library, piece, codes, examples, is_last=place + len(piece) == stop)
    levels: Counter[str] = Counter()
    names = _features(library)
    for code, count in codes.items():
        if level := _level(examples[code], names):
            levels[level] += count
    return levels


def _decode(
    library: Any,
    piece: bytes,
    codes: Counter[int],
    examples: dict[int, Any],
    *,
    is_last: bool,
) -> int:
    """Count the instructions that begin in a piece, and return where the next one begins."""
    limit = len(piece) if is_last else max(1, len(piece) - _LONGEST)
    for instruction in library.Decoder(64, piece, ip=0):
        if instruction.ip >= limit:
            return int(instruction.ip)
        code = instruction.code
        codes[code] += 1
        if code not in examples:
            examples[code] = instruction.copy()
    return len(piece)


def _features(library: Any) -> dict[int, str]:
    """Return features of processors by their numbers: the levels that first have them."""
    return {
        getattr(library.CpuidFeature, name): level
        for level, names in _FIRST_IN.items()
        for name in names
    }


def _level(instruction: Any, levels: dict[int, str]) -> str | None:
    """Return the level that has an instruction; None if none has it, or it is none."""
    if not instruction.code:  # bytes that are no instruction
        return None
    found = [levels.get(feature) for feature in instruction.cpuid_features()]
    known = [level for level in found if level is not None]
    return max(known, default="v1")


def _library() -> Any:
    try:
        import iced_x86  # noqa: PLC0415  # an extra
    except ImportError:
        raise NeedsExtra("build", "iced-x86") from None
    return iced_x86
