"""P-110 to P-115: Arm versions and abilities."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import pytest
from platforms.detecting import detect, names_of, write_files

from wheelfit_runtime.platforms.facts import Core, Cpu
from wheelfit_runtime.platforms.features import Detection
from wheelfit_runtime.platforms.providers.aarch64 import provider as aarch64
from wheelfit_runtime.platforms.providers.aarch64.tables import (
    APPENDED,
    CORE_VERSIONS,
    FEATURES,
    HWCAP_BITS,
    REQUIREMENTS,
)

UP_TO: dict[str, frozenset[str]] = {}
for _version, _needed in REQUIREMENTS:
    UP_TO[_version] = frozenset().union(*UP_TO.values(), _needed)
EVERYTHING = frozenset(FEATURES + APPENDED)

N1, V1, V2 = Core(0x41, 0xD0C), Core(0x41, 0xD40), Core(0x41, 0xD4F)
M1, M2, M4 = Core(0x61, 0x022), Core(0x61, 0x032), Core(0x61, 0x052)
UNKNOWN = Core(0x41, 0xFFF)


def _version_of(cpu: Cpu, *, bits_decide: bool = True) -> str:
    return aarch64.supported(cpu, bits_decide=bits_decide).features[0].values[0]


@pytest.mark.parametrize("version", ["8a", "8.1a", "8.2a", "8.3a", "8.4a"])
def test_bits_alone_decide_up_to_8_4(version: str) -> None:
    """P-112: each version needs all bits of the lower ones, whatever the core."""
    assert _version_of(Cpu(UP_TO[version], (UNKNOWN,))) == version


@pytest.mark.parametrize(
    ("cores", "version"),
    [
        ((), "8.4a"),
        ((UNKNOWN,), "8.4a"),
        ((N1,), "8.4a"),
        ((M2,), "8.5a"),
        ((M4,), "8.5a"),
        ((V2,), "9.0a"),
        ((V2, UNKNOWN), "8.4a"),
        ((V1, V2), "8.4a"),
        ((M2, V2), "8.5a"),
    ],
)
def test_beyond_8_4_every_core_must_be_known(cores: tuple[Core, ...], version: str) -> None:
    """P-113, P-114: with every bit set, the weakest core decides."""
    assert _version_of(Cpu(EVERYTHING, cores)) == version


def test_each_version_needs_each_of_its_bits() -> None:
    """P-112, P-113: the lists of the rules; whatever is missing, the version below is reached."""
    needed = {
        "8.1a": "fp asimd crc32 atomics asimdrdm",
        "8.2a": "dcpop",
        "8.3a": "jscvt fcma lrcpc paca pacg",
        "8.4a": "fphp asimdhp asimddp asimdfhm dit uscat ilrcpc flagm",
        "8.5a": "dcpodp flagm2 frint sb ssbs",
        "9.0a": "sve2",
    }
    everything = frozenset(" ".join(needed.values()).split())
    assert _version_of(Cpu(everything, (V2,))) == "9.0a"
    below = "8a"
    for version, names in needed.items():
        for name in names.split():
            assert _version_of(Cpu(everything - {name}, (V2,))) == below, name
        below = version


def test_a_known_core_needs_its_bits_too() -> None:
    """P-113: a hypervisor may hide what the core has; asimddp (bit 20) takes 8.4 away."""
    assert _version_of(Cpu(EVERYTHING - {"sve2"}, (V2,))) == "8.5a"
    assert _version_of(Cpu(EVERYTHING - {"frint"}, (V2,))) == "8.4a"
    assert _version_of(Cpu(EVERYTHING - {"asimddp"}, (V2,))) == "8.3a"
    assert _version_of(Cpu(EVERYTHING - {"atomics"}, (V2,))) == "8a"


@pytest.mark.parametrize(
    ("brand", "version"),
    [
        ("Apple M1 Pro", "8.4a"),
        ("Apple M2", "8.5a"),
        ("Apple M3 Max", "8.5a"),
        ("Apple M4 Pro", "8.5a"),
        ("Apple M5", "8.5a"),
        ("Apple M10 Ultra", "8.5a"),
        ("Apple A14", "8.4a"),
        ("Apple A18 Pro", "8.5a"),
        ("Apple A12Z", "8a"),
        ("Apple processor", "8a"),
        ("", "8a"),
    ],
)
def test_on_macos_the_brand_identifies_the_core(brand: str, version: str) -> None:
    """P-113, section 11: a name that identifies nothing is 8a."""
    assert _version_of(Cpu(EVERYTHING, brand=brand), bits_decide=False) == version


@pytest.mark.parametrize(
    ("implementer", "part", "version"),
    [
        (0x41, 0xD0C, "8.2a"), (0x41, 0xD40, "8.4a"), (0x41, 0xD49, "9.0a"),
        (0x41, 0xD4F, "9.0a"), (0x6D, 0xD49, "9.0a"), (0x46, 0x001, "8.2a"),
        (0x42, 0x516, "8.1a"), (0x43, 0x0AF, "8.1a"), (0xC0, 0xAC3, "8.4a"),
        (0xC0, 0xAC4, "8.4a"), (0x61, 0x020, "8.4a"), (0x61, 0x025, "8.4a"),
        (0x61, 0x028, "8.4a"), (0x61, 0x029, "8.4a"), (0x61, 0x030, "8.5a"),
        (0x61, 0x039, "8.5a"), (0x61, 0x043, "8.5a"), (0x61, 0x053, "8.5a"),
        (0x41, 0xD84, "9.0a"), (0x41, 0xD8E, "9.0a"), (0x4E, 0x010, "9.0a"),
    ],
)  # fmt: skip
def test_known_cores(implementer: int, part: int, version: str) -> None:
    """P-113, P-115: the table of the rule, and newer ones by their part numbers."""
    assert CORE_VERSIONS[Core(implementer, part)] == version


@pytest.mark.parametrize("part", [0xD08, 0xD0B, 0xD41, 0xD44])
def test_cores_before_armv9_promise_nothing(part: int) -> None:
    """P-113: Cortex-A72, A76, A78 and X1 are not in the table; the bits decide."""
    assert _version_of(Cpu(UP_TO["8.2a"], (Core(0x41, part),))) == "8.2a"
    assert Core(0x41, part) not in CORE_VERSIONS


def test_an_unknown_core_that_alone_stands_in_the_way_is_named() -> None:
    """P-75, P-113: who has a newer processor than the table can see why it does not count."""
    detection = aarch64.supported(Cpu(EVERYTHING, (V2, UNKNOWN)))
    assert "unknown: 0x41/0xfff" in detection.evidence[-1].value
    assert aarch64.supported(Cpu(EVERYTHING, (V2,))).evidence == ()
    assert aarch64.supported(Cpu(UP_TO["8.2a"], (UNKNOWN,))).evidence == ()


def test_hidden_abilities_are_named() -> None:
    """P-75, P-112: as when a virtual machine has no pointer authentication."""
    detection = aarch64.supported(Cpu(EVERYTHING - {"paca", "pacg"}, (V2,)))
    assert detection.features[0].values[0] == "8.2a"
    assert detection.evidence[-1].value == "the core is 9.0a, but hidden for 8.3a: paca, pacg"
    m4 = aarch64.supported(Cpu(EVERYTHING - {"ssbs"}, brand="Apple M4"), bits_decide=False)
    assert m4.features[0].values[0] == "8.4a"
    assert m4.evidence[-1].value == "the core is 8.5a, but hidden for 8.5a: ssbs"


_detect = partial(detect, "aarch64", architecture="aarch64")


def test_windows_tells_some_abilities_and_no_version(tmp_path: Path) -> None:
    """Section 11: treated as 8a; what Windows affirms is there all the same."""
    affirmed = frozenset({19, 29, 30, 31, 34, 43, 44, 45})
    detection = _detect(tmp_path, system="Windows", recorded_features=affirmed)
    assert detection.features[0].values == ("8a",)
    assert names_of(detection) == [
        "version", "jscvt", "asimddp", "lrcpc", "atomics", "aes", "asimd", "crc32", "fp", "pmull",
        "sha1", "sha2",
    ]  # fmt: skip
    assert names_of(_detect(tmp_path, system="FreeBSD")) == ["version"]


@pytest.mark.parametrize("architecture", ["x86_64", "armv8l", "armv7l"])
def test_another_interpreter_supports_nothing(tmp_path: Path, architecture: str) -> None:
    """P-110: a 32-bit Python on such a processor loads other wheels."""
    assert _detect(tmp_path, architecture=architecture).features == ()


def _linux(root: Path, cpuinfo: str, vector: bytes | None = None) -> Detection:
    write_files(root, {"proc/cpuinfo": cpuinfo})
    if vector is not None:
        write_files(root, {"proc/self/auxv": vector})
    return _detect(root)


def test_the_vector_counts_more_than_the_file(tmp_path: Path) -> None:
    """P-112, P-114: HWCAP is what this process may use, with bit 20 masked it is 8.3a."""
    words = {name: bit for bit, name in enumerate(HWCAP_BITS)}
    first = sum(1 << words[name] for name in UP_TO["8.4a"] & words.keys()) & ~(1 << 20)
    vector = struct.pack("<6Q", 16, first, 26, 0, 0, 0)
    cpuinfo = f"Features : {' '.join(EVERYTHING)}\nCPU implementer : 0x41\nCPU part : 0xd4f\n"
    assert _linux(tmp_path, cpuinfo, vector).features[0].values[0] == "8.3a"


def test_cores_come_from_the_registers_when_the_file_has_none(tmp_path: Path) -> None:
    """P-113: ``midr_el1`` in /sys."""
    register = "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
    write_files(tmp_path, {register: "0x00000000410fd4f0\n"})
    detection = _linux(tmp_path, f"Features : {' '.join(EVERYTHING)}\n")
    assert detection.features[0].values[0] == "9.0a"


def test_an_emulator_that_shows_an_x86_host_tells_nothing(tmp_path: Path) -> None:
    """P-74, P-112: flags of another architecture are not abilities of this one."""
    detection = _linux(tmp_path, "flags : fpu sse2 avx2\n")
    assert names_of(detection) == ["version"]
    assert "8a" in detection.warnings[0]


def test_features_have_the_order_of_the_reference() -> None:
    """P-40, P-41, P-110, P-111: version, the reference's 42 abilities corrected, then ours."""
    names = names_of(aarch64.supported(Cpu(EVERYTHING)))
    assert names == ["version", *FEATURES, *APPENDED]
    assert len(FEATURES) == 42
    assert not {"btiecv", "asimdrdmatomics"} & set(names)


def test_the_reference_mode_leaves_out_what_the_reference_does_not_know() -> None:
    """P-43: for differential tests."""
    detection = aarch64.supported(Cpu(EVERYTHING), reference=True)
    assert names_of(detection) == ["version", *FEATURES]


def test_unknown_abilities_are_8a_with_a_warning() -> None:
    """P-112: nothing known is nothing promised."""
    detection = aarch64.supported(Cpu(None, (V2,)))
    assert [(f.name, f.values) for f in detection.features] == [("version", ("8a",))]
    assert "8a" in detection.warnings[0]


def test_every_version_supports_the_older_ones() -> None:
    """Section 11: newest first, down to 8a."""
    values = aarch64.supported(Cpu(EVERYTHING, (V2,))).features[0].values
    assert values == ("9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a")
