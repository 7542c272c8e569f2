"""P-100 to P-105: levels and flags."""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path

import pytest
from platforms.detecting import detect, detection_of, names_of, write_files

from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.facts import Cpu, CpuidRegisters, CpuidTable
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.providers.x86_64 import provider as x86_64
from wheelfit_runtime.platforms.providers.x86_64.tables import APPENDED, FEATURES, LEVELS
from wheelfit_runtime.platforms.system_view import SystemView

V2 = LEVELS[1][1]
V3 = V2 | LEVELS[2][1]
V4 = V3 | LEVELS[3][1]


@pytest.mark.parametrize(
    ("flags", "levels"),
    [
        (frozenset(), "v1"),
        (V2, "v2 v1"),
        (V3, "v3 v2 v1"),
        (V4, "v4 v3 v2 v1"),
        (V3 - {"abm"}, "v2 v1"),
        (V4 - {"ssse3"}, "v1"),
        (V4 - {"movbe"}, "v2 v1"),
    ],
)
def test_a_level_needs_all_flags_of_the_lower_ones(flags: frozenset[str], levels: str) -> None:
    """P-102: one missing flag takes the level away, and all above it."""
    assert x86_64.supported(Cpu(flags)).features[0].values == tuple(levels.split())


def test_each_level_needs_each_of_its_flags() -> None:
    """P-102: the psABI's lists; no flag of them may be missing, and no other one is needed."""
    needed = {
        "v2": "cx16 lahf_lm popcnt sse3 ssse3 sse4_1 sse4_2",
        "v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe",
        "v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    }
    everything = frozenset(" ".join(needed.values()).split())
    assert x86_64.supported(Cpu(everything)).features[0].values == ("v4", "v3", "v2", "v1")
    for level, flags in needed.items():
        for flag in flags.split():
            reached = x86_64.supported(Cpu(everything - {flag})).features[0].values
            assert reached[0] == f"v{int(level[1]) - 1}", flag


def test_level_and_flags_have_the_order_of_the_reference() -> None:
    """P-40, P-41, P-100, P-101: level, the reference's 56 flags newest first, then ours."""
    names = names_of(x86_64.supported(Cpu(frozenset(APPENDED + FEATURES))))
    assert names == ["level", *FEATURES, *APPENDED]
    assert (len(FEATURES), len(APPENDED)) == (56, 15)


def test_the_reference_mode_leaves_out_what_the_reference_does_not_know() -> None:
    """P-43: for differential tests."""
    cpu = Cpu(frozenset(APPENDED + FEATURES))
    assert names_of(x86_64.supported(cpu, reference=True)) == ["level", *FEATURES]


def test_flags_outside_the_vocabulary_are_ignored() -> None:
    """P-100: only known features are features."""
    cpu = Cpu(frozenset({"fpu", "sse2", "constant_tsc"}))
    assert names_of(x86_64.supported(cpu)) == ["level", "sse2"]


def test_unknown_abilities_are_v1_with_a_warning() -> None:
    """P-104: v1, not v2 as another tool assumes."""
    detection = x86_64.supported(Cpu(None))
    assert [(f.name, f.values) for f in detection.features] == [("level", ("v1",))]
    assert "v1" in detection.warnings[0]


_detect = partial(detect, "x86_64")
SSE3 = CpuidTable({(1, 0): CpuidRegisters(0, 0, 1, 0)})
"""A processor that has this flag alone."""
MOST_OF_V2 = CpuidTable({
    (1, 0): CpuidRegisters(0, 0, 1 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23, 0),
    (0x80000001, 0): CpuidRegisters(0, 0, 1, 0),
})  # fmt: skip


def _emulated(root: Path, cpuinfo: str, table: CpuidTable) -> Detection:
    write_files(root, {"proc/cpuinfo": cpuinfo})
    return _detect(root, recorded_cpuid=table)


def test_an_emulator_that_shows_the_host_s_file_is_found_out(tmp_path: Path) -> None:
    """P-105: what the instruction denies is not used, and that is said."""
    detection = _emulated(tmp_path, f"flags : {' '.join(sorted(V3))} pni\n", MOST_OF_V2)
    assert detection.features[0].values == ("v2", "v1")
    assert "avx2" in detection.warnings[0]


def test_an_emulator_may_lack_a_flag_that_decides_no_level(tmp_path: Path) -> None:
    """P-105: then the level stays, that flag goes, and what the instruction cannot tell stays."""
    detection = _emulated(tmp_path, f"flags : {' '.join(V2)} aes ibrs_enhanced\n", MOST_OF_V2)
    assert detection.features[0].values == ("v2", "v1")
    assert set(names_of(detection)) == V2 | {"level", "ibrs_enhanced"}
    assert "lists aes," in detection.warnings[0]


def test_the_file_of_another_architecture_is_not_believed(tmp_path: Path) -> None:
    """P-105: under emulation on an Arm host the instruction is all there is."""
    detection = _emulated(tmp_path, "Features : fp asimd\n", SSE3)
    assert names_of(detection) == ["level", "sse3"]


@pytest.mark.parametrize("architecture", ["i686", "aarch64", "armv7l", "ppc64le"])
def test_another_interpreter_supports_nothing(tmp_path: Path, architecture: str) -> None:
    """P-104: the interpreter counts, and the processor is not even looked at."""
    detection = _detect(tmp_path, architecture=architecture, recorded_cpuid=SSE3)
    assert (detection.status, detection.features) == (Status.NOTHING, ())


def test_flags_are_those_of_the_processor_and_not_of_its_model() -> None:
    """P-103: a flag that no published model of the family has is still a flag."""
    flags = V3 | {"vaes", "sse4a"}
    assert set(names_of(x86_64.supported(Cpu(flags)))) == {"level", *flags}


def test_what_every_processor_has_counts(tmp_path: Path) -> None:
    """P-105: with unlike processors the intersection decides the level."""
    both = f"flags : {' '.join(V4)}\n\nflags : {' '.join(V3)}\n"
    write_files(tmp_path, {"proc/cpuinfo": both})
    assert _detect(tmp_path).features[0].values == ("v3", "v2", "v1")


_windows = partial(_detect, system="Windows")


def test_windows_alone_tells_too_little_for_a_level(tmp_path: Path) -> None:
    """P-107: where the instruction is refused, it is v1, the flags that are sure, and a warning."""
    affirmed = frozenset({2, 3, 6, 8, 10, 12, 13, 14, 17, 28, 36, 37, 38, 39, 40})
    detection = _windows(tmp_path, recorded_features=affirmed)
    assert detection.features[0].values == ("v1",)
    assert "avx2" in names_of(detection)
    assert "v1 is assumed" in detection.warnings[0]
    assert [evidence.source for evidence in detection.evidence] == [
        "CPUID",
        "IsProcessorFeaturePresent",
    ]


def test_the_instruction_comes_before_windows(tmp_path: Path) -> None:
    """P-107: who can ask the processor asks nobody else."""
    detection = _windows(tmp_path, recorded_cpuid=SSE3, recorded_features=frozenset({36, 37, 38}))
    assert names_of(detection) == ["level", "sse3"]
    assert detection.warnings == ()


def test_nobody_to_ask_is_v1_with_a_warning(tmp_path: Path) -> None:
    """P-104, P-107: no instruction, no file, no system."""
    detection = _windows(tmp_path)
    assert detection.features[0].values == ("v1",)
    assert "could not be detected" in detection.warnings[0]


def test_the_level_is_the_one_of_the_dynamic_loader() -> None:
    """P-102: glibc's loader says which levels it would search."""
    detection = detection_of("x86_64", Machine(SystemView(environ={})))
    if detection.status is not Status.SUPPORTED:
        pytest.skip("needs an x86-64 interpreter")
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("needs glibc's loader")
    completed = subprocess.run([loader, "--help"], capture_output=True, text=True, check=False)
    found = re.findall(r"x86-64-(v[234]) \(supported", completed.stdout)
    if "x86-64-v2" not in completed.stdout:
        pytest.skip("this loader is too old to say")
    assert detection.features[0].values == (*found, "v1")
