"""P-106, P-112: what macOS says of its processor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wheelfit_runtime.platforms.probes import sysctl
from wheelfit_runtime.platforms.providers.aarch64 import probes as arm_probes
from wheelfit_runtime.platforms.providers.aarch64.tables import APPENDED, FEATURES
from wheelfit_runtime.platforms.providers.x86_64 import probes as x86_probes
from wheelfit_runtime.platforms.providers.x86_64.tables import LEVELS
from wheelfit_runtime.platforms.system_view import SystemView

INTEL = {
    "machdep.cpu.features": b"FPU SSE3 SSSE3 SSE4.1 SSE4.2 CX16 POPCNT FMA AVX1.0 MOVBE F16C\0",
    "machdep.cpu.leaf7_features": b"RDWRFSGS BMI1 AVX2 BMI2 CLFSOPT ADX\0",
    "machdep.cpu.extfeatures": b"SYSCALL LAHF LZCNT\0",
}
V2, V3 = LEVELS[1][1], LEVELS[2][1]


def test_the_three_lists_are_one_with_the_names_of_linux() -> None:
    """P-106: lower-case, and each name that Linux spells otherwise."""
    flags = x86_probes.parse_macos(INTEL).flags
    assert flags is not None
    assert flags >= V2 | V3 | {"fsgsbase", "clflushopt", "adx", "sse4_1"}


@pytest.mark.parametrize(
    ("list_name", "word", "flag"),
    [
        ("machdep.cpu.features", b"SSE4.1", "sse4_1"),
        ("machdep.cpu.features", b"SSE4.2", "sse4_2"),
        ("machdep.cpu.features", b"AVX1.0", "avx"),
        ("machdep.cpu.leaf7_features", b"AVX2.0", "avx2"),
        ("machdep.cpu.leaf7_features", b"CLFSOPT", "clflushopt"),
        ("machdep.cpu.extfeatures", b"LAHF", "lahf_lm"),
    ],
)
def test_aliases(list_name: str, word: bytes, flag: str) -> None:
    """P-106: each alias by itself."""
    assert x86_probes.parse_macos({list_name: word + b"\0"}).flags == frozenset({flag})


def test_translated_means_no_avx_and_nothing_newer() -> None:
    """P-106: Rosetta; what an older processor has stays."""
    cpu = x86_probes.parse_macos({**INTEL, "sysctl.proc_translated": b"\1\0\0\0"})
    assert cpu.flags is not None
    assert cpu.flags >= V2
    assert not cpu.flags & (V3 | {"clflushopt", "adx"})
    assert "Rosetta" in cpu.warnings[0]
    native = x86_probes.parse_macos({**INTEL, "sysctl.proc_translated": b"\0\0\0\0"})
    assert (native.flags, native.warnings) == (x86_probes.parse_macos(INTEL).flags, ())


def test_switches_of_apple_s_chips_have_the_names_of_linux() -> None:
    """P-112: one switch may stand for two abilities; off is off."""
    cpu = arm_probes.parse_macos({
        "hw.optional.arm.FEAT_PAuth": b"\1\0\0\0",
        "hw.optional.arm.FEAT_SB": b"\0\0\0\0",
        "hw.optional.AdvSIMD": b"\1\0\0\0\0\0\0\0",
        "machdep.cpu.brand_string": b"Apple M3 Pro\0",
    })  # fmt: skip
    assert cpu.flags == frozenset({"paca", "pacg", "fp", "asimd"})
    assert cpu.brand == "Apple M3 Pro"


def test_every_switch_means_an_ability_of_the_vocabulary() -> None:
    """P-110, P-111: nothing is found that could not be asked for."""
    answers = {name: b"\1\0\0\0" for name in arm_probes.MACOS_NAMES if name.startswith("hw.")}
    flags = arm_probes.parse_macos(answers).flags
    assert flags is not None
    assert flags <= set(FEATURES + APPENDED)


def test_silence_is_not_knowing() -> None:
    """P-74, P-104: no answer is not a list of nothing."""
    assert x86_probes.parse_macos({}).flags is None
    assert arm_probes.parse_macos({}).flags is None


def test_only_macos_is_asked(tmp_path: Path) -> None:
    """P-70: recorded answers count; a captured machine without any has none."""
    recorded = SystemView(root=str(tmp_path), recorded_sysctl=INTEL)
    wanted = ("machdep.cpu.features", "hw.optional.none")
    assert list(sysctl.read(recorded, wanted)) == ["machdep.cpu.features"]
    assert sysctl.read(SystemView(root=str(tmp_path)), wanted) == {}
    if sys.platform != "darwin":
        assert sysctl.read(SystemView(), wanted) == {}
