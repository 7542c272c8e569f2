"""What processors say, whatever they say: probes and providers never raise (P-74)."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.facts import Core, Cpu, CpuidRegisters, CpuidTable
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.probes import proc_cpuinfo
from wheelfit_runtime.platforms.providers.aarch64 import probes as arm_probes
from wheelfit_runtime.platforms.providers.aarch64 import provider as aarch64
from wheelfit_runtime.platforms.providers.aarch64 import tables as arm_tables
from wheelfit_runtime.platforms.providers.x86_64 import probes as x86_probes
from wheelfit_runtime.platforms.providers.x86_64 import provider as x86_64
from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_tables
from wheelfit_runtime.platforms.system_view import SystemView

NOWHERE = Path(__file__).parent / "no such machine"

X86_FLAGS = st.frozensets(st.sampled_from((*x86_tables.FEATURES, *x86_tables.APPENDED)))
ARM_FLAGS = st.frozensets(st.sampled_from((*arm_tables.FEATURES, *arm_tables.APPENDED)))
CORES = st.lists(
    st.one_of(
        st.sampled_from(sorted(arm_tables.CORE_VERSIONS)),
        st.builds(Core, st.integers(0, 0xFF), st.integers(0, 0xFFF)),
    ),
    max_size=3,
).map(tuple)
REGISTERS = st.builds(CpuidRegisters, *[st.integers(0, 2**32 - 1)] * 4)
PLACES = sorted({(leaf, subleaf) for leaf, subleaf, _ in x86_tables.CPUID_FLAGS})
TABLES = st.builds(
    CpuidTable,
    st.dictionaries(st.sampled_from(PLACES), REGISTERS),
    st.one_of(st.none(), st.integers(0, 2**64 - 1)),
)
LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(["flags : avx sse2", "Features : fp asimd", "CPU part : 0xd0c", ""]),
        st.builds("CPU implementer : {}".format, st.text(max_size=8)),
    )
).map("\n".join)
ANSWERS = st.dictionaries(
    st.sampled_from((*x86_probes.MACOS_NAMES, *arm_probes.MACOS_NAMES)), st.binary(max_size=60)
)
NUMBERS = st.one_of(st.none(), st.frozensets(st.integers(0, 200)))


@given(LINES, st.binary(max_size=100), st.lists(st.text(max_size=20)))
def test_any_text_is_read(text: str, vector: bytes, registers: list[str]) -> None:
    """P-74, P-105, P-114: files of other systems, torn and empty ones."""
    info = proc_cpuinfo.parse(text, "flags")
    assert info.flags is None or info.flags
    assert list(info.cores) == sorted(set(info.cores))
    arm_probes.parse_auxv(vector)
    assert all(core.part <= 0xFFF for core in arm_probes.parse_midr(registers))


@given(TABLES)
def test_any_table_gives_flags_of_the_vocabulary(table: CpuidTable) -> None:
    """P-107: and none whose registers the system does not save."""
    flags = x86_probes.parse_cpuid(table)
    assert flags <= {*x86_tables.FEATURES, *x86_tables.APPENDED}
    leaf = table.leaves.get((1, 0))
    if leaf is None or not leaf.ecx >> 27 & 1 or (table.xcr0 or 0) & 6 != 6:
        assert not flags & x86_tables.NEEDS_YMM_STATE
    if "avx512f" in flags:
        assert (table.xcr0 or 0) & 0xE6 == 0xE6


@given(X86_FLAGS, X86_FLAGS)
def test_more_flags_never_mean_less(flags: frozenset[str], more: frozenset[str]) -> None:
    """P-102: levels grow with the flags, and each includes the lower ones."""
    few, many = x86_64.supported(Cpu(flags)), x86_64.supported(Cpu(flags | more))
    assert set(few.features[0].values) <= set(many.features[0].values)
    assert many.features[0].values[-1] == "v1"
    assert {f.name for f in few.features} <= {f.name for f in many.features}


@given(ARM_FLAGS, ARM_FLAGS, CORES)
def test_more_bits_never_mean_an_older_version(
    flags: frozenset[str], more: frozenset[str], cores: tuple[Core, ...]
) -> None:
    """P-112, P-113: versions grow with the bits, and another core never makes one newer."""
    few = aarch64.supported(Cpu(flags, cores)).features[0].values
    many = aarch64.supported(Cpu(flags | more, cores)).features[0].values
    assert set(few) <= set(many)
    assert many[-1] == "8a"
    if cores:
        joined = aarch64.supported(Cpu(flags, (*cores, Core(0, 0)))).features[0].values
        assert set(joined) <= set(few)


@given(
    st.sampled_from(["Linux", "Darwin", "Windows", "freebsd14"]),
    st.sampled_from(["x86_64", "aarch64"]),
    st.one_of(st.none(), TABLES),
    ANSWERS,
    NUMBERS,
)
def test_something_is_always_supported(
    system: str,
    architecture: str,
    table: CpuidTable | None,
    answers: dict[str, bytes],
    numbers: frozenset[int] | None,
) -> None:
    """P-74, P-104: whatever is answered, the lowest level is there and nothing fails."""
    machine = Machine(
        SystemView(
            NOWHERE,
            {},
            system=system,
            architecture=architecture,
            recorded_cpuid=table,
            recorded_sysctl=answers,
            recorded_features=numbers,
        )
    )
    detection = machine.detect(architecture)
    assert detection is not None
    assert detection.status is Status.SUPPORTED
    assert detection.features[0].values[-1] in {"v1", "8a"}


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_bits_are_found_again(first: int, second: int) -> None:
    """P-112: both words of a vector, in any place of it."""
    data = struct.pack("<6Q", 26, second, 3, 7, 16, first)
    hwcap = arm_probes.parse_auxv(data)
    assert hwcap is not None
    assert (hwcap.first, hwcap.second) == (first, second)
    known = {*arm_tables.HWCAP_BITS, *arm_tables.HWCAP2_BITS.values()}
    assert hwcap.names <= known
