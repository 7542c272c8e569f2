"""Count the instructions of a library by the level of x86-64 that introduced them (P-102).

The one importer of iced-x86. Executable sections are decoded from their beginning to their end, as
``objdump`` does it; data among the code may look like instructions. A count describes the content
of the library, not the code that runs: many libraries choose when they are loaded. `InstructionUse`
has more evidence, and `wheelfit.wheels.binaries.unguarded_instructions` evaluates it. Where the
disassembler is not installed, `NeedsExtra` is raised.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.errors import NeedsExtra
from wheelfit.wheels.binaries import pe
from wheelfit.wheels.binaries.bounded_reader import FACTS, SYMBOLS, Allowance, Unreadable, Window
from wheelfit.wheels.binaries.facts import LEVELS, Format, InstructionUse
from wheelfit.wheels.binaries.startup import (
    CodeSection,
    Startup,
    module_functions,
    read_startup,
    with_ends,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable
    from typing import BinaryIO

    from wheelfit.wheels.binaries.facts import Binary

_PIECE = 4 << 20
_LONGEST = 15
"""Bytes of an instruction at most."""
_VARIABLE_SIZES = (1, 2, 4, 8)
"""Bytes of a variable that is not a vector; an address that is only computed has none."""
_CODE = Allowance(100_000, 4 << 30, _PIECE)

# What each level adds; that of v1 every such processor has. LAHF has no feature of its own.
_FIRST_IN = {
    "v2": ("CMPXCHG16B", "POPCNT", "SSE3", "SSSE3", "SSE4_1", "SSE4_2"),
    "v3": ("AVX", "AVX2", "BMI1", "BMI2", "F16C", "FMA", "LZCNT", "MOVBE"),
    "v4": ("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"),
}
_VECTORS = ("SSE", "SSE2", "SSE3", "SSSE3", "SSE4_1", "SSE4_2", "AES", "PCLMULQDQ")
"""Of these features instructions have another form where a compiler may use AVX."""
_SCALAR = ("BMI1", "BMI2", "LZCNT", "MOVBE")
_LONGEST_FUNCTION = 1 << 20


class _Group(Enum):
    """The kinds of instructions distinguished."""

    OTHER = auto()
    SSE = auto()
    """With registers of SSE, in the form that a compiler does not use where it may use AVX."""
    AVX = auto()
    NEWER = auto()
    """Not with vectors, and of v3: shifts and multiplications of BMI2, for instance."""
    QUESTION = auto()
    """Instructions that detect the processor."""


def with_instructions(binary: Binary, file: BinaryIO) -> Binary:
    """Return the facts about a binary, with its number of instructions of each level.

    For other machines than x86-64, and for Mach-O files, it is unknown.

    :raises NeedsExtra: the disassembler is not installed.
    """
    if "x86_64" not in binary.machines or binary.format not in (Format.ELF, Format.PE):
        return binary
    try:
        if binary.format is Format.PE:
            sections = pe.executable_sections(Window(file, FACTS))
            startup = Startup(tuple(CodeSection(0, start, size) for start, size in sections))
        else:
            startup = read_startup(Window(file, SYMBOLS))
        levels, use = _count(Window(file, _CODE), Window(file, SYMBOLS), startup)
    except Unreadable as error:
        return replace(binary, faults=(*binary.faults, str(error)))
    counts = tuple((level, levels[level]) for level in LEVELS if levels[level])
    return replace(binary, levels=replace(binary.levels, instructions=counts, use=use))


def _count(window: Window, tables: Window, startup: Startup) -> tuple[Counter[str], InstructionUse]:
    from collections import Counter

    library = _library()
    called = startup.initialisers | module_functions(
        tables, startup, _referred(library, tables, startup)
    )
    startup = with_ends(tables, startup, called)
    kinds = _Kinds(library)
    codes: Counter[int] = Counter()
    told: Counter[tuple[int, int]] = Counter()
    """How often a function has an instruction: by where it ends and by code."""
    done = 0
    for section in sorted(startup.sections, key=lambda one: one.start):
        # No byte twice, even if sections overlap.
        place, stop = max(section.start, done), section.start + section.size
        done = max(done, stop)
        while place < stop:
            piece = window.read(place, min(_PIECE, stop - place))
            origin = section.address + place - section.start
            is_last = place + len(piece) == stop
            limit = origin + (len(piece) if is_last else max(1, len(piece) - _LONGEST))
            size = len(piece)
            end = origin  # of the function
            for instruction in library.Decoder(64, piece, ip=origin):
                address = instruction.ip
                if address >= limit:
                    size = address - origin
                    break
                code = instruction.code
                codes[code] += 1
                if kinds[code] if code in kinds else kinds.learn(instruction):
                    if address >= end:
                        end = startup.end_of_function(address)
                    told[end, code] += 1
            place += size
    levels: Counter[str] = Counter()
    groups: Counter[_Group] = Counter()
    for code, count in codes.items():
        groups[kinds.group(code)] += count
        if level := kinds.level(code):
            levels[level] += count
    asking = {end for end, code in told if kinds.group(code) is _Group.QUESTION}
    certain = {startup.end_of_function(one) for one in called} - asking
    newer: Counter[str] = Counter()
    at_start: Counter[str] = Counter()
    for (end, code), count in told.items():
        level = kinds.level(code)
        if level is not None and kinds.group(code) is not _Group.QUESTION:
            newer[level] += count
            at_start[level] += count if end in certain else 0
    return levels, InstructionUse(
        tuple((level, at_start[level]) for level in LEVELS if at_start[level]),
        tuple((level, newer[level]) for level in LEVELS if newer[level]),
        groups[_Group.SSE],
        groups[_Group.AVX],
        startup.asks or bool(asking),
    )


class _Kinds(dict[int, bool]):
    """By codes of instructions: whether it matters in which function they are."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self._library = library
        self._levels = _features(library)
        self._known: dict[int, tuple[str | None, _Group]] = {}
        feature = library.CpuidFeature
        self._vectors = {getattr(feature, name) for name in _VECTORS}
        self._scalar = {getattr(feature, name) for name in _SCALAR}
        self._xmm = range(library.Register.XMM0, library.Register.XMM31 + 1)
        self._questions = (library.Mnemonic.CPUID, library.Mnemonic.XGETBV)

    def level(self, code: int) -> str | None:
        """Return the level that has an instruction; None if it is none."""
        return self._known[code][0]

    def group(self, code: int) -> _Group:
        """Return the group of an instruction."""
        return self._known[code][1]

    def learn(self, instruction: Any) -> bool:
        """Record an instruction, and return whether its address matters."""
        level = _level(instruction, self._levels)
        mnemonic = instruction.mnemonic
        if mnemonic == self._library.Mnemonic.TZCNT:
            level = "v1"  # older processors read it as BSF, and compilers write it for them too
        group = self._group(instruction, level, mnemonic)
        self._known[instruction.code] = level, group
        matters = self[instruction.code] = group not in (_Group.OTHER, _Group.SSE)
        return matters

    def _group(self, instruction: Any, level: str | None, mnemonic: int) -> _Group:
        if mnemonic in self._questions:
            return _Group.QUESTION
        if level is None:
            return _Group.OTHER
        features = instruction.cpuid_features()
        if level in ("v3", "v4"):
            return _Group.AVX if self._scalar.isdisjoint(features) else _Group.NEWER
        if self._vectors.isdisjoint(features):
            return _Group.OTHER
        kinds = [
            instruction.op_register(number) in self._xmm
            for number in range(instruction.op_count)
            if instruction.op_kind(number) == self._library.OpKind.REGISTER
        ]
        return _Group.SSE if any(kinds) else _Group.OTHER


def _referred(library: Any, window: Window, startup: Startup) -> frozenset[int]:
    """Return the addresses that functions which make modules refer to."""
    addresses: set[int] = set()
    for _, address in startup.modules:
        place = bisect_right(startup.functions, address)
        for section in startup.sections:
            start = address - section.address
            if 0 <= start < section.size:
                end = section.address + section.size
                if place < len(startup.functions):
                    end = min(end, startup.functions[place])
                data = window.read(section.start + start, min(end - address, _LONGEST_FUNCTION))
                for instruction in library.Decoder(64, data, ip=address):
                    if instruction.is_ip_rel_memory_operand:
                        addresses.add(instruction.ip_rel_memory_address)
    return frozenset(addresses)


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
    levels_of_features = [levels.get(feature) for feature in instruction.cpuid_features()]
    known = [level for level in levels_of_features if level is not None]
    return max(known, default="v1")


@dataclass(frozen=True, slots=True)
class FrameUse:
    """How code uses its stack frames, as numbers of instructions."""

    instructions: int = 0
    accesses: int = 0
    """Of a variable below the frame pointer."""
    reloads: int = 0
    """Those that read what the instruction before has written."""
    prologues: int = 0
    """Beginnings of functions that set up a frame pointer."""
    returns: int = 0


def count_frame_use(window: Window, sections: Iterable[tuple[int, int]]) -> FrameUse:
    """Return the use of stack frames by code; of long code that of a sample.

    Only accesses of up to eight bytes count: optimised code saves vectors there.
    """
    library = _library()
    pointer, no_register = library.Register.RBP, library.Register.NONE
    memory, size_of = library.OpKind.MEMORY, library.MemorySizeExt.size
    move, push, back = (getattr(library.Mnemonic, name) for name in ("MOV", "PUSH", "RET"))
    instructions = accesses = reloads = prologues = returns = 0
    left = _PIECE
    for start, length in sorted(sections):
        piece = window.read(start, min(length, left))
        left -= len(piece)
        written: int | None = None
        is_pushed = False
        for one in library.Decoder(64, piece, ip=0):
            instructions += 1
            is_access = (
                one.memory_base == pointer
                and one.memory_index == no_register
                and one.memory_displacement >> 63  # negative
                and size_of(one.memory_size) in _VARIABLE_SIZES
            )
            writes = is_access and one.op0_kind == memory
            accesses += bool(is_access)
            reloads += bool(is_access and not writes and one.memory_displacement == written)
            written = one.memory_displacement if writes else None
            mnemonic = one.mnemonic
            prologues += is_pushed and mnemonic == move and one.op0_register == pointer
            is_pushed = mnemonic == push and one.op0_register == pointer
            returns += mnemonic == back
    return FrameUse(instructions, accesses, reloads, prologues, returns)


def _library() -> Any:
    try:
        import iced_x86
    except ImportError:
        raise NeedsExtra("build", "iced-x86") from None
    return iced_x86
