"""Count the instructions of a library by the level of x86-64 that introduced them (P-102).

Executable sections are decoded from their beginning to their end, as ``objdump`` does it; data
among the code may look like instructions. A count describes the content of the library, not the
code that runs: many libraries choose functions for the processor when they are loaded.
`InstructionUse` has more evidence, and `wheelfit.wheels.binaries.unguarded_instructions` evaluates
it. The disassembler is iced-x86, which only this module imports; where it is not installed,
`NeedsExtra` is raised.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from wheelfit.errors import NeedsExtra
from wheelfit.wheels.binaries import pe
from wheelfit.wheels.binaries.bounded_reader import (
    FACTS_LIMITS,
    SYMBOLS_LIMITS,
    ReadLimits,
    Unreadable,
    Window,
)
from wheelfit.wheels.binaries.facts import LEVELS, Binary, Format, InstructionUse
from wheelfit.wheels.binaries.startup import (
    CodeSection,
    Startup,
    module_functions,
    read_startup,
    with_function_ends,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO


_PIECE_SIZE = 4 << 20
"""Bytes that are decoded at a time."""
_MAX_INSTRUCTION_SIZE = 15
"""Bytes."""
_VARIABLE_SIZES = (1, 2, 4, 8)
"""Bytes of a variable that is not a vector; size 0 means that only an address is computed."""
_CODE = ReadLimits(100_000, 4 << 30, _PIECE_SIZE)

# Features that each level adds to the one before; all others belong to v1. LAHF, of v2, has no
# feature of its own.
_NEW_FEATURES = {
    "v2": ("CMPXCHG16B", "POPCNT", "SSE3", "SSSE3", "SSE4_1", "SSE4_2"),
    "v3": ("AVX", "AVX2", "BMI1", "BMI2", "F16C", "FMA", "LZCNT", "MOVBE"),
    "v4": ("AVX512F", "AVX512BW", "AVX512CD", "AVX512DQ", "AVX512VL"),
}
_VECTOR_FEATURES = ("SSE", "SSE2", "SSE3", "SSSE3", "SSE4_1", "SSE4_2", "AES", "PCLMULQDQ")
"""Features whose instructions have an AVX form, which compilers prefer where AVX is allowed."""
_SCALAR_FEATURES = ("BMI1", "BMI2", "LZCNT", "MOVBE")
"""Features of v3 without vectors."""
_MAX_FUNCTION_SIZE = 1 << 20


class _Group(Enum):
    """A kind of instruction."""

    OTHER = auto()
    SSE = auto()
    """With SSE registers, in the form that compilers do not use where AVX is allowed."""
    AVX = auto()
    SCALAR = auto()
    """Of v3, without vectors, as shifts of BMI2."""
    DETECTION = auto()
    """CPUID and XGETBV, which detect the processor."""


def with_instructions(binary: Binary, file: BinaryIO) -> Binary:
    """Return the facts about a binary, with the number of instructions of each level.

    Facts about other files than ELF and PE for x86-64 are returned unchanged.

    :raises NeedsExtra: the disassembler is not installed.
    """
    if "x86_64" not in binary.machines or binary.format not in (Format.ELF, Format.PE):
        return binary
    try:
        if binary.format is Format.PE:
            sections = pe.executable_sections(Window(file, FACTS_LIMITS))
            startup = Startup(tuple(CodeSection(0, start, size) for start, size in sections))
        else:
            startup = read_startup(Window(file, SYMBOLS_LIMITS))
        levels, use = _count(Window(file, _CODE), Window(file, SYMBOLS_LIMITS), startup)
    except Unreadable as error:
        return replace(binary, faults=(*binary.faults, str(error)))
    return replace(binary, levels=replace(binary.levels, instructions=_by_level(levels), use=use))


def _by_level(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((level, counts[level]) for level in LEVELS if counts.get(level))


def _count(window: Window, tables: Window, startup: Startup) -> tuple[Counter[str], InstructionUse]:
    """Return the number of instructions of each level, and evidence of their use.

    :param window: the file, for reading its code.
    :param tables: the same file, for reading its tables of symbols and functions.
    """
    from collections import Counter

    disassembler = _disassembler()
    startup_functions = startup.initialisers | module_functions(
        tables, startup, _referenced_addresses(disassembler, tables, startup)
    )
    startup = with_function_ends(tables, startup, startup_functions)
    kinds = _InstructionKinds(disassembler)
    by_code, by_function = _count_codes(disassembler, window, startup, kinds)
    levels: Counter[str] = Counter()
    groups: Counter[_Group] = Counter()
    for code, count in by_code.items():
        groups[kinds.group(code)] += count
        if level := kinds.level(code):
            levels[level] += count
    detecting_functions = {
        end for end, code in by_function if kinds.group(code) is _Group.DETECTION
    }
    unguarded_functions = {
        startup.end_of_function(address) for address in startup_functions
    } - detecting_functions
    newer_counts: Counter[str] = Counter()
    startup_counts: Counter[str] = Counter()
    for (end, code), count in by_function.items():
        level = kinds.level(code)
        if level is not None and kinds.group(code) is not _Group.DETECTION:
            newer_counts[level] += count
            if end in unguarded_functions:
                startup_counts[level] += count
    return levels, InstructionUse(
        _by_level(startup_counts),
        _by_level(newer_counts),
        groups[_Group.SSE],
        groups[_Group.AVX],
        startup.detects_processor or bool(detecting_functions),
    )


def _count_codes(
    disassembler: Any, window: Window, startup: Startup, kinds: _InstructionKinds
) -> tuple[Counter[int], Counter[tuple[int, int]]]:
    """Return how often each instruction occurs in the code.

    :return: by code of the instruction; and, for kinds whose function matters, by the end of the
        function and the code.
    """
    from collections import Counter

    by_code: Counter[int] = Counter()
    by_function: Counter[tuple[int, int]] = Counter()
    done = 0  # sections may overlap, and no byte is counted twice
    for section in sorted(startup.sections, key=lambda section: section.start):
        offset, stop = max(section.start, done), section.start + section.size
        done = max(done, stop)
        while offset < stop:
            piece = window.read(offset, min(_PIECE_SIZE, stop - offset))
            start = section.address + offset - section.start
            size = len(piece)
            # An instruction that may be truncated is read with the next piece.
            is_last = offset + size == stop
            limit = start + (size if is_last else max(1, size - _MAX_INSTRUCTION_SIZE))
            function_end = start
            for instruction in disassembler.Decoder(64, piece, ip=start):
                address = instruction.ip
                if address >= limit:
                    size = address - start
                    break
                code = instruction.code
                by_code[code] += 1
                function_matters = kinds.get(code)
                if function_matters is None:  # once for each code of millions of instructions
                    function_matters = kinds.add(instruction)
                if function_matters:
                    if address >= function_end:
                        function_end = startup.end_of_function(address)
                    by_function[function_end, code] += 1
            offset += size
    return by_code, by_function


class _InstructionKinds(dict[int, bool]):
    """The kinds of instructions; as a mapping by code, whether the containing function matters."""

    def __init__(self, disassembler: Any) -> None:
        super().__init__()
        self._disassembler = disassembler
        feature = disassembler.CpuidFeature
        self._levels = {
            getattr(feature, name): level
            for level, names in _NEW_FEATURES.items()
            for name in names
        }
        self._kinds: dict[int, tuple[str | None, _Group]] = {}
        self._vector_features = {getattr(feature, name) for name in _VECTOR_FEATURES}
        self._scalar_features = {getattr(feature, name) for name in _SCALAR_FEATURES}
        self._xmm_registers = range(disassembler.Register.XMM0, disassembler.Register.XMM31 + 1)
        self._detection = (disassembler.Mnemonic.CPUID, disassembler.Mnemonic.XGETBV)

    def level(self, code: int) -> str | None:
        """Return the level that introduced an instruction; None for an invalid one."""
        return self._kinds[code][0]

    def group(self, code: int) -> _Group:
        """Return the group of an instruction."""
        return self._kinds[code][1]

    def add(self, instruction: Any) -> bool:
        """Add an instruction, and return whether its function matters."""
        level = self._level_of(instruction)
        group = self._group_of(instruction, level)
        self._kinds[instruction.code] = level, group
        matters = self[instruction.code] = group not in (_Group.OTHER, _Group.SSE)
        return matters

    def _level_of(self, instruction: Any) -> str | None:
        if not instruction.code:
            return None
        if instruction.mnemonic == self._disassembler.Mnemonic.TZCNT:
            return "v1"  # older processors run it as BSF, and compilers use it for them too
        levels = (self._levels.get(feature, "v1") for feature in instruction.cpuid_features())
        return max(levels, default="v1")

    def _group_of(self, instruction: Any, level: str | None) -> _Group:
        if instruction.mnemonic in self._detection:
            return _Group.DETECTION
        if level is None:
            return _Group.OTHER
        features = instruction.cpuid_features()
        if level in ("v3", "v4"):
            is_vector = self._scalar_features.isdisjoint(features)
            return _Group.AVX if is_vector else _Group.SCALAR
        if self._vector_features.isdisjoint(features):
            return _Group.OTHER
        has_xmm = any(
            instruction.op_register(number) in self._xmm_registers
            for number in range(instruction.op_count)
            if instruction.op_kind(number) == self._disassembler.OpKind.REGISTER
        )
        return _Group.SSE if has_xmm else _Group.OTHER


def _referenced_addresses(disassembler: Any, window: Window, startup: Startup) -> frozenset[int]:
    """Return the addresses to which functions that create modules refer."""
    addresses: set[int] = set()
    for _, address in startup.modules:
        index = bisect_right(startup.functions, address)
        for section in startup.sections:
            start = address - section.address
            if 0 <= start < section.size:
                end = section.address + section.size
                if index < len(startup.functions):
                    end = min(end, startup.functions[index])
                data = window.read(section.start + start, min(end - address, _MAX_FUNCTION_SIZE))
                for instruction in disassembler.Decoder(64, data, ip=address):
                    if instruction.is_ip_rel_memory_operand:
                        addresses.add(instruction.ip_rel_memory_address)
    return frozenset(addresses)


@dataclass(frozen=True, slots=True)
class FrameUse:
    """The use of stack frames by code, as numbers of instructions."""

    instructions: int = 0
    accesses: int = 0
    """Accesses to a variable below the frame pointer."""
    reloads: int = 0
    """Reads of the variable that the previous instruction has written."""
    prologues: int = 0
    """Set-ups of a frame pointer."""
    returns: int = 0


def count_frame_use(window: Window, sections: Iterable[tuple[int, int]]) -> FrameUse:
    """Return the use of stack frames by code, or by its first 4 MiB.

    Only accesses of up to eight bytes count, as optimised code saves vectors there too.

    :param sections: offset and size of each section with code.
    """
    disassembler = _disassembler()
    frame_pointer, no_register = disassembler.Register.RBP, disassembler.Register.NONE
    memory, size_of = disassembler.OpKind.MEMORY, disassembler.MemorySizeExt.size
    move, push, ret = (getattr(disassembler.Mnemonic, name) for name in ("MOV", "PUSH", "RET"))
    instructions = accesses = reloads = prologues = returns = 0
    bytes_left = _PIECE_SIZE
    for start, length in sorted(sections):
        piece = window.read(start, min(length, bytes_left))
        bytes_left -= len(piece)
        written_displacement: int | None = None  # displacement of the variable just written
        is_pushed = False  # whether the frame pointer was just pushed
        for instruction in disassembler.Decoder(64, piece, ip=0):
            instructions += 1
            displacement = instruction.memory_displacement
            is_access = (
                instruction.memory_base == frame_pointer
                and instruction.memory_index == no_register
                and displacement >> 63  # negative
                and size_of(instruction.memory_size) in _VARIABLE_SIZES
            )
            is_write = is_access and instruction.op0_kind == memory
            accesses += bool(is_access)
            reloads += bool(is_access and not is_write and displacement == written_displacement)
            written_displacement = displacement if is_write else None
            mnemonic = instruction.mnemonic
            is_frame_pointer = instruction.op0_register == frame_pointer
            prologues += is_pushed and mnemonic == move and is_frame_pointer
            is_pushed = mnemonic == push and is_frame_pointer
            returns += mnemonic == ret
    return FrameUse(instructions, accesses, reloads, prologues, returns)


def _disassembler() -> Any:
    try:
        import iced_x86
    except ImportError:
        raise NeedsExtra("build", "iced-x86") from None
    return iced_x86
