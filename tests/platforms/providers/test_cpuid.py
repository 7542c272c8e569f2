"""P-107: the CPUID instruction, recorded and real."""

from __future__ import annotations

import ctypes
import mmap
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from platforms.detecting import MACHINES, detection_of
from programs import run_program

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.facts import CpuidRegisters, CpuidTable
from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.probes import proc_cpuinfo
from wheelfit_runtime.platforms.providers.x86_64 import instruction, probes
from wheelfit_runtime.platforms.providers.x86_64 import provider as x86_64
from wheelfit_runtime.platforms.providers.x86_64.tables import (
    APPENDED,
    CPUID_FLAGS,
    FEATURES,
    LEVELS,
)
from wheelfit_runtime.platforms.recording import open_recorded
from wheelfit_runtime.platforms.system_view import SystemView, architecture_of_this_process

EVERYTHING = CpuidTable(
    {(leaf, subleaf): CpuidRegisters(*[0xFFFFFFFF] * 4) for leaf, subleaf, _ in CPUID_FLAGS},
    xcr0=0x600E7,
)


@pytest.fixture
def ice_lake() -> CpuidTable:
    """Return the recorded table of a processor with AVX-512."""
    machine = open_recorded(MACHINES / "windows-x86-icelake")
    table = machine.view.recorded_cpuid
    assert table is not None
    return table


@pytest.mark.parametrize(("xcr0", "level"), [(3, "v2"), (0x6, "v3"), (0xE6, "v4"), (None, "v2")])
def test_the_system_must_save_the_wide_registers(
    ice_lake: CpuidTable, xcr0: int | None, level: str
) -> None:
    """P-102, P-107: one processor, other register states: other levels."""
    detection = x86_64.supported(x86_64.from_cpuid(replace(ice_lake, xcr0=xcr0)))
    assert detection.features[0].values[0] == level


def test_register_states_mean_nothing_without_osxsave(ice_lake: CpuidTable) -> None:
    """P-107: OSXSAVE must be set."""
    leaf = ice_lake.leaves[1, 0]
    cleared = {**ice_lake.leaves, (1, 0): leaf._replace(ecx=leaf.ecx & ~(1 << 27))}
    flags = probes.parse_cpuid(CpuidTable(cleared, xcr0=0xE7))
    assert "sse4_2" in flags
    assert not flags & {"avx", "avx2", "fma", "avx512f", "xsave", "xsaveopt", "xsavec"}


def test_every_position_is_a_flag_of_the_vocabulary() -> None:
    """P-100, P-101, P-107: all flags are found but the one that CPUID does not tell."""
    assert set(FEATURES + APPENDED) - probes.parse_cpuid(EVERYTHING) == {"ibrs_enhanced"}
    assert probes.parse_cpuid(EVERYTHING) <= set(FEATURES + APPENDED)


@pytest.mark.parametrize(
    ("xcr0", "absent", "present"),
    [(0x7, "avx512f", "avx2"), (0xE7, "amx_tile", "avx512f"), (0x600E7, "", "amx_tile")],
)
def test_each_register_state_has_its_flags(xcr0: int, absent: str, present: str) -> None:
    """P-107: bits 1, 2 for AVX, also 5 to 7 for AVX-512, 17 and 18 for AMX."""
    flags = probes.parse_cpuid(replace(EVERYTHING, xcr0=xcr0))
    assert absent not in flags
    assert present in flags


@pytest.mark.parametrize("bit", [1, 2, 5, 6, 7, 17, 18])
def test_no_part_of_a_register_state_may_be_missing(bit: int) -> None:
    """P-107: a system that saves half of the wide registers saves none that may be used."""
    flags = probes.parse_cpuid(replace(EVERYTHING, xcr0=0x600E7 & ~(1 << bit)))
    assert ("avx2" in flags) is (bit > 2)
    assert ("avx512f" in flags) is (bit > 7)
    assert ("amx_tile" in flags) is (bit < 17)


POSITIONS = """
    1.0 ecx sse3 0 pclmulqdq 1 ssse3 9 fma 12 cx16 13 sse4_1 19 sse4_2 20 movbe 22 popcnt 23 aes 25
        xsave 26 avx 28 f16c 29 rdrand 30
    1.0 edx mmx 23 sse 25 sse2 26
    7.0 ebx fsgsbase 0 tsc_adjust 1 bmi1 3 avx2 5 bmi2 8 avx512f 16 avx512dq 17 rdseed 18 adx 19
        avx512ifma 21 clflushopt 23 clwb 24 avx512cd 28 sha_ni 29 avx512bw 30 avx512vl 31
    7.0 ecx avx512vbmi 1 waitpkg 5 avx512_vbmi2 6 gfni 8 vaes 9 vpclmulqdq 10 avx512_vnni 11
        avx512_bitalg 12 avx512_vpopcntdq 14 rdpid 22 movdiri 27 movdir64b 28
    7.0 edx avx512_vp2intersect 8 serialize 14 amx_bf16 22 avx512_fp16 23 amx_tile 24 amx_int8 25
        flush_l1d 28
    7.1 eax sha512 0 sm3 1 sm4 2 avx_vnni 4 avx512_bf16 5 cmpccxadd 7 amx_fp16 21 avx_ifma 23
    7.1 edx avx_vnni_int8 4 avx_ne_convert 5 avx_vnni_int16 10
    d.1 eax xsaveopt 0 xsavec 1
    80000001.0 ecx lahf_lm 0 abm 5 sse4a 6
    80000008.0 ebx clzero 0 cppc 27
"""


def test_every_flag_stands_where_the_manual_says() -> None:
    """P-101, P-107: leaf, register and bit of every flag; nothing else is lit by that bit."""
    words = POSITIONS.split()
    found = 0
    leaf = register = ""
    while words:
        word = words.pop(0)
        if "." in word:
            leaf, register = word, words.pop(0)
            continue
        bit = 1 << int(words.pop(0))
        number, subleaf = (int(part, 16) for part in leaf.split("."))
        zero = CpuidRegisters(0, 0, 0, 0)
        leaves = {(1, 0): zero._replace(ecx=1 << 27)}  # OSXSAVE
        registers = leaves.get((number, subleaf), zero)
        leaves[number, subleaf] = registers._replace(
            **{register: getattr(registers, register) | bit}
        )
        assert probes.parse_cpuid(CpuidTable(leaves, xcr0=0x600E7)) == {word}
        found += 1
    assert found == len(FEATURES + APPENDED) - 1  # ibrs_enhanced


def test_an_empty_table_has_no_flags() -> None:
    """P-74: what is not there counts as zero."""
    assert probes.parse_cpuid(CpuidTable({})) == frozenset()


@pytest.fixture
def real_table() -> CpuidTable:
    """Return what this machine's processor answers, or skip."""
    here = SystemView()
    if here.system != "Linux" or architecture_of_this_process() != "x86_64":
        pytest.skip("needs Linux on x86-64")
    table = probes.read_cpuid(here)
    if table is None:
        pytest.skip("this system lets nobody ask the processor")
    return table


def test_the_real_instruction_agrees_with_the_kernel(real_table: CpuidTable) -> None:
    """P-105, P-107: on this machine both ways give the same flags of the vocabulary."""
    text = SystemView().read_text(proc_cpuinfo.PATH)
    assert text is not None
    kernel = proc_cpuinfo.parse(text, "flags").flags or frozenset()
    told = probes.parse_cpuid(real_table)
    # A kernel may hide an ability or learn it elsewhere; what decides a level may not differ.
    levels = {flag for _, flags in LEVELS for flag in flags}
    assert kernel & levels == told & levels


def test_the_code_for_windows_brings_the_same_registers(real_table: CpuidTable) -> None:
    """P-107: called as Windows would call it, which takes its arguments from other registers."""
    # mov r8, rdx; mov ecx, edi; mov edx, esi
    calls = {
        "Unix": instruction.SYSTEM_V,
        "Windows": bytes.fromhex("4989d0 89f9 89f2") + instruction.WINDOWS,
    }
    for code in calls.values():
        page = mmap.mmap(-1, mmap.PAGESIZE)
        page.write(code)
        start = ctypes.c_char.from_buffer(page)
        address = ctypes.c_void_p(ctypes.addressof(start))
        executable = mmap.PROT_READ | mmap.PROT_EXEC
        assert ctypes.CDLL(None).mprotect(address, mmap.PAGESIZE, executable) == 0
        call = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(
            ctypes.addressof(start)
        )
        registers = (ctypes.c_uint32 * 4)()
        # Other leaves hold what changes from core to core.
        for leaf, subleaf in real_table.leaves.keys() & {(7, 0), (0x80000001, 0)}:
            call(leaf, subleaf, ctypes.addressof(registers))
            assert tuple(registers) == real_table.leaves[leaf, subleaf]


REFUSED = """
import ctypes, sys
# From now on nothing that was writable becomes executable (PR_SET_MDWE, Linux 6.3).
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    sys.exit(77)
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.providers.x86_64 import probes
from wheelfit_runtime.platforms.system_view import SystemView
assert probes.read_cpuid(SystemView()) is None
print(*Machine(SystemView(environ={})).detect("x86_64").features[0].values)
"""


def test_a_system_that_refuses_the_code_is_no_accident() -> None:
    """P-74, P-107: the answer is that there is none, and the file still counts."""
    detection = detection_of("x86_64", Machine(SystemView(environ={})))
    if sys.platform != "linux" or detection.status is not Status.SUPPORTED:
        pytest.skip("needs Linux on x86-64")
    completed = run_program(sys.executable, "-c", REFUSED, code=None)
    if completed.returncode == 77:
        pytest.skip("this kernel cannot refuse")
    assert completed.stdout.split() == list(detection.features[0].values), completed.stderr


def test_the_instruction_is_never_issued_for_a_captured_machine(tmp_path: Path) -> None:
    """P-70: a captured machine without a recorded table has none."""
    assert probes.read_cpuid(SystemView(root=str(tmp_path), architecture="x86_64")) is None
