"""The facts about the binaries in a wheel, as values; unknown ones are None or a fault."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
from wheelfit_runtime.platforms.words import natural_sort_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEVELS = ("v1", "v2", "v3", "v4")
"""The levels of x86-64, as notes and names have them (P-102)."""


def level_of_bits(bits: int) -> str | None:
    """Return the highest level in a note's set of bits; None if no bit or an unknown one is set.

    >>> level_of_bits(0b0111), level_of_bits(0), level_of_bits(0b10000)
    ('v3', None, None)

    :param bits: bit 0 is the baseline, v1.
    """
    highest = bits.bit_length()
    return LEVELS[highest - 1] if 1 <= highest <= len(LEVELS) else None


def is_below(level: str, other: str) -> bool:
    """Return whether a level is lower than another; both are in `LEVELS`."""
    return LEVELS.index(level) < LEVELS.index(other)


class Format(StrEnum):
    """The file format of a binary."""

    ELF = "elf"
    PE = "pe"
    MACHO = "mach-o"
    FATBIN = "fatbin"
    """A CUDA fat binary in a file of its own."""
    CUBIN = "cubin"
    """Machine code for one GPU in a file of its own."""
    PTX = "ptx"
    """PTX text, for the driver's compiler, in a file of its own."""


class CodeKind(StrEnum):
    """The kind of code for GPUs."""

    MACHINE = "machine code"
    PTX = "ptx"
    """Compiled by the driver, for its device and any newer one."""
    NVVM = "nvvm"
    """Compiled when a program is linked for devices; nothing runs it as it is."""
    OTHER = "other"
    """An unknown kind."""


ANY_SUFFIX = "?"
"""The suffix of code that may be for the plain architecture or for ``a`` or ``f``."""


class DeviceCode(Struct, frozen=True):
    """The target of one image of code for NVIDIA's GPUs (B-60)."""

    kind: CodeKind
    number: int
    """The architecture, as 90."""
    suffix: str = ""
    """``a``, ``f`` or empty; `ANY_SUFFIX` where the file does not show it."""
    version: tuple[int, int] | None = None
    """Of PTX: its ISA, as (8, 7)."""

    @property
    def capability(self) -> Capability:
        """The compute capability, as 9.0."""
        return Capability(self.number // 10, self.number % 10)

    @property
    def values(self) -> tuple[str, ...]:
        """The values of ``sm_arch`` that it may stand for; none for code no GPU runs."""
        if self.kind not in (CodeKind.MACHINE, CodeKind.PTX):
            return ()
        kind = "real" if self.kind is CodeKind.MACHINE else "virtual"
        suffixes = ("", "a", "f") if self.suffix == ANY_SUFFIX else (self.suffix,)
        return tuple(f"{self.number}{suffix}_{kind}" for suffix in suffixes)

    @property
    def sort_key(self) -> tuple[str, int, str, tuple[int, int]]:
        """The sort key of images: kind, architecture, version."""
        return (self.kind.value, self.number, self.suffix, self.version or (0, 0))

    def __str__(self) -> str:
        name = f"{self.number}{self.suffix}"
        match self.kind:
            case CodeKind.MACHINE:
                return f"sm_{name}"
            case CodeKind.PTX:
                isa = "" if self.version is None else f" (PTX {self.version[0]}.{self.version[1]})"
                return f"compute_{name}{isa}"
            case CodeKind.NVVM:
                return f"lto_{name}"
            case _:
                return f"unknown code for {name}"


class InstructionUse(Struct, frozen=True):
    """The use of v3 and v4 instructions in a binary for x86-64."""

    at_start: tuple[tuple[str, int], ...] = ()
    """Each level with its number of instructions in functions that the loader and Python call on
    any processor."""
    newer: tuple[tuple[str, int], ...] = ()
    """Each level with its number of instructions in the whole binary."""
    sse: int = 0
    """The number of instructions encoded as SSE; where AVX is allowed, compilers use none."""
    avx: int = 0
    """The number of instructions encoded as AVX or AVX-512."""
    detects_processor: bool = False
    """Whether any code in the binary detects the processor."""

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, for ``--json``."""
        return {
            "at_start": dict(self.at_start),
            "sse": self.sse,
            "avx": self.avx,
            "detects_processor": self.detects_processor,
        }


class IsaLevels(Struct, frozen=True):
    """The x86-64 levels of a binary, each as ``v3``; None: not stated (P-102)."""

    needed: str | None = None
    """The level below which the loader refuses the binary (a note of the linker)."""
    instructions: tuple[tuple[str, int], ...] | None = None
    """Each level with its number of instructions, whether they run or not; None: not counted."""
    use: InstructionUse | None = None
    """The use of v3 and v4 instructions; None: not examined."""


class SymbolVersion(Struct, frozen=True, order=True):
    """A symbol version that a binary requires from a library."""

    library: str
    """As ``libc.so.6``."""
    name: str
    """As ``GLIBC_2.17``."""


class MinimumSystem(Struct, frozen=True):
    """The oldest system that a binary for one machine is made for."""

    machine: str
    system: str
    """``macos``."""
    version: tuple[int, int]


class Binary(Struct, frozen=True):
    """The facts about one binary."""

    member: str
    """Its path in the wheel, or the name of the file."""
    format: Format
    size: int
    machines: tuple[str, ...] = ()
    """The architectures it runs on, as ``x86_64``; several for a universal binary. Unknown ones are
    numbers; empty for code for GPUs only.
    """
    soname: str | None = None
    """The name by which other binaries link with the binary."""
    needed: tuple[str, ...] = ()
    """The libraries that it loads, in its order."""
    rpath: tuple[str, ...] = ()
    """The folders in which the loader looks for libraries first."""
    versions: tuple[SymbolVersion, ...] = ()
    """The symbol versions that it requires, sorted."""
    levels: IsaLevels = IsaLevels()
    minimum_systems: tuple[MinimumSystem, ...] = ()
    code: tuple[DeviceCode, ...] = ()
    """The images for GPUs that can be loaded, each kind once, sorted."""
    python_symbols: tuple[str, ...] = ()
    """The functions and data of Python that it imports, sorted; empty if not read."""
    debug: int = 0
    """Bytes of debug information."""
    build_paths: tuple[str, ...] | None = None
    """Paths of source files on the machine where it was built; None: not examined."""
    unlinked: tuple[DeviceCode, ...] = ()
    """The images left over from separate compilation, which are never loaded."""
    targets: tuple[str, ...] = ()
    """The AMD GPUs that it has code for, such as ``gfx90a:xnack+``, sorted."""
    faults: tuple[str, ...] = ()
    """The unreadable parts, so that it may contain more than listed here."""

    def newest_versions(self) -> list[str]:
        """Return the newest symbol version of each family; it implies the older ones."""
        newest: dict[str, str] = {}
        for version in self.versions:
            family, underscore, _ = version.name.rpartition("_")
            family = family if underscore else version.name
            newest[family] = max(
                newest.get(family, version.name), version.name, key=natural_sort_key
            )
        return sorted(newest.values())

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, for ``--json``."""
        return {
            "member": self.member,
            "format": self.format.value,
            "size": self.size,
            "machines": list(self.machines),
            "soname": self.soname,
            "needed": list(self.needed),
            "rpath": list(self.rpath),
            "versions": [
                {"library": version.library, "name": version.name} for version in self.versions
            ],
            "x86_64_level": {
                "needed": self.levels.needed,
                "instructions": (
                    None if self.levels.instructions is None else dict(self.levels.instructions)
                ),
                "use": None if self.levels.use is None else self.levels.use.to_mapping(),
            },
            "minimum_systems": [
                {
                    "machine": minimum_system.machine,
                    "system": minimum_system.system,
                    "version": f"{minimum_system.version[0]}.{minimum_system.version[1]}",
                }
                for minimum_system in self.minimum_systems
            ],
            "code": [_code_mapping(image) for image in self.code],
            "unlinked": [_code_mapping(image) for image in self.unlinked],
            "targets": list(self.targets),
            "faults": list(self.faults),
        }


def _code_mapping(code: DeviceCode) -> dict[str, object]:
    return {
        "kind": code.kind.value,
        "architecture": f"{code.number}{code.suffix}",
        "version": None if code.version is None else f"{code.version[0]}.{code.version[1]}",
    }


class Binaries(Struct, frozen=True):
    """The facts about all binaries of a wheel."""

    members: tuple[Binary, ...] = ()
    """In the order of the archive."""

    def __iter__(self) -> Iterator[Binary]:
        return iter(self.members)

    @property
    def with_code(self) -> tuple[Binary, ...]:
        """The binaries with loadable code for NVIDIA's GPUs."""
        return tuple(member for member in self.members if member.code)

    @property
    def code(self) -> tuple[DeviceCode, ...]:
        """All code for GPUs that can be loaded, each kind once, sorted."""
        return in_order(image for member in self.members for image in member.code)

    @property
    def with_targets(self) -> tuple[Binary, ...]:
        """The binaries with code for AMD's GPUs."""
        return tuple(member for member in self.members if member.targets)

    @property
    def needed(self) -> tuple[str, ...]:
        """All libraries that are loaded and are not among these, sorted."""
        own_names = {binary.soname for binary in self.members}
        own_names |= {binary.member.rpartition("/")[2] for binary in self.members}
        needed = {name for binary in self.members for name in binary.needed}
        return tuple(sorted(needed - own_names))


def in_order(images: Iterable[DeviceCode]) -> tuple[DeviceCode, ...]:
    """Return images sorted, each kind once."""
    return tuple(sorted(set(images), key=lambda image: image.sort_key))
