"""What a wheel claims is held against its binaries."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from checking.releases import NVIDIA, check, codes
from wheels.binaries.extension_modules import MODULE, compiled

from wheelfit.checking.findings import Finding, Severity
from wheelfit.testing.binaries import (
    elf_file,
    fat_binary,
    macho_file,
    offload_bundle,
    pe_file,
    universal_file,
)
from wheelfit.testing.wheels import build_wheel, release_document

LINUX = "cp313-cp313-manylinux_2_28_x86_64"
ARM, INTEL = 0x0100000C, 0x01000007


def found(
    folder: Path,
    *binaries: bytes,
    nvidia: dict[str, list[str]] | None = None,
    amd: list[str] | None = None,
    level: list[str] | None = None,
    tag: str = LINUX,
) -> list[Finding]:
    """Return what is found in a wheel that has some binaries and claims some properties."""
    files = {f"fast/lib{number}.so": content for number, content in enumerate(binaries)}
    properties: dict[str, Any] = {}
    providers = {}
    if nvidia is not None:
        properties["nvidia"], providers["nvidia"] = nvidia, NVIDIA
    if amd is not None:
        properties["amd"] = {"gfx_arch": amd}
        providers["amd"] = {"requires": ["amd-variant-provider"]}
    if level is not None:
        properties["x86_64"] = {"level": level}
        providers["x86_64"] = {"requires": ["x86-64-variant-provider<1"]}
    label = {}
    if properties:
        label = {
            "label": "one",
            "document": release_document({"one": properties}, providers=providers),
        }
    wheel = build_wheel(folder, "fast", "1.0", files=files, tag=tag, **label)  # type: ignore[arg-type]
    about = check(wheel, binaries=True).findings
    return [one for one in about if one.code in CODES]


CODES = {
    "no-such-code",
    "no-sm-arch",
    "unclaimed-code",
    "wrong-cuda-bound",
    "level-too-low",
    "foreign-binary",
    "platform-too-old",
    "unreadable-binary",
}


def code(*images: str, **more: Any) -> bytes:
    """Return a library that has code for GPUs."""
    return elf_file(sections={".nv_fatbin": fat_binary(*images)}, **more)


def short(findings: list[Finding]) -> list[tuple[str, str]]:
    """Return codes and severities."""
    return [(finding.code, finding.severity.value) for finding in findings]


def arch(*values: str, bound: str = "12.0") -> dict[str, list[str]]:
    """Return what a wheel claims of GPUs."""
    return {"sm_arch": sorted(values), "cuda_version_lower_bound": [bound]}


class TestGpus:
    """Code for GPUs."""

    @pytest.mark.parametrize(
        ("values", "images"),
        [
            (["90_real"], ["sm_90"]),
            (["90_real"], ["sm_90a"]),  # there is one GPU of 9, and it runs that
            (["90a_real"], ["sm_90a"]),
            (["90_real", "80_real"], ["sm_80", "sm_90"]),
            (["100f_real", "100_real"], ["sm_100f"]),
            (["120_real"], ["sm_120"]),
        ],
    )
    def test_true(self, tmp_path: Path, values: list[str], images: list[str]) -> None:
        """B-60: nothing is found where every GPU that takes the wheel finds code."""
        errors = found(tmp_path, code(*images), nvidia=arch(*values))
        assert Severity.ERROR not in {error.severity for error in errors}, errors
        assert Severity.WARNING not in {error.severity for error in errors}, errors

    @pytest.mark.parametrize(
        ("value", "images", "gpu"),
        [
            ("90_real", ["sm_80"], "9.0"),
            ("90_real", ["compute_80 8.0"], "9.0"),  # "real" is machine code
            ("90_virtual", ["sm_90"], "9.0"),
            ("80_virtual", ["compute_90 8.0"], "8.0"),
            ("90a_real", ["sm_90"], None),  # it runs, though not as fast
            ("80_real", ["sm_86"], "8.0"),
            ("100_real", ["sm_100a"], "10.3"),  # that takes the wheel for the value too
            ("120_real", ["sm_120a"], "12.1"),
            ("87_real", ["sm_86"], "8.7"),  # a board
        ],
    )
    def test_false(self, tmp_path: Path, value: str, images: list[str], gpu: str | None) -> None:
        """B-60, P-90, P-91: a value is false if a GPU takes the wheel for it and finds nothing."""
        findings = [
            one
            for one in found(tmp_path, code(*images), nvidia=arch(value))
            if one.code == "no-such-code"
        ]
        assert [finding.severity for finding in findings] == [
            Severity.NOTE if gpu is None else "error"
        ]
        if gpu is not None:
            assert f"has no code for {gpu}" in findings[0].message

    def test_alternatives(self, tmp_path: Path) -> None:
        """B-60: a binary that lacks what others have may be one of several to choose from."""
        findings = found(tmp_path, code("sm_80"), code("sm_90"), nvidia=arch("90_real"))
        assert ("no-such-code", "warning") in short(findings)
        assert ("no-such-code", "error") not in short(findings)
        findings = found(tmp_path, code("sm_80"), code("sm_80"), code("sm_90"),
                         nvidia=arch("90_real"))  # fmt: skip
        (message,) = [finding.message for finding in findings if finding.code == "no-such-code"]
        assert re.fullmatch(r"it claims .+, for which there is no code in \S+ and \S+", message)

    def test_nothing_at_all(self, tmp_path: Path) -> None:
        """B-60: code may come from another package, so its absence is a note."""
        assert short(found(tmp_path, elf_file(), nvidia=arch("90_real"))) == [
            ("no-such-code", "note")
        ]

    def test_what_is_left_from_compiling(self, tmp_path: Path) -> None:
        """B-60: code that was not linked for the devices counts for nothing."""
        library = elf_file(sections={"__nv_relfatbin": fat_binary("sm_90")})
        assert ("no-such-code", "note") in short(found(tmp_path, library, nvidia=arch("90_real")))

    @pytest.mark.parametrize(
        ("nvidia", "level", "severity"),
        [
            ({"cuda_version_lower_bound": ["13.0"]}, None, "warning"),
            (None, ["v3"], "note"),  # it may run without a GPU
            (None, None, None),  # a plain wheel claims nothing
        ],
    )
    def test_no_sm_arch(
        self,
        tmp_path: Path,
        nvidia: dict[str, list[str]] | None,
        level: list[str] | None,
        severity: str | None,
    ) -> None:
        """P-95: a variant that has code for some GPUs, and that any GPU takes, is told of."""
        findings = found(tmp_path, code("sm_75"), nvidia=nvidia, level=level)
        assert short(findings) == ([] if severity is None else [("no-sm-arch", severity)])

    def test_family(self, tmp_path: Path) -> None:
        """P-90: code for the family of 10.0 is what the plain value names too."""
        library = code("sm_100f", "sm_120f", "compute_120 9.2")
        claimed = arch("100_real", "100f_real", "120_real", "120f_real", "120_virtual")
        assert (
            found(tmp_path, library, nvidia={**claimed, "cuda_version_lower_bound": ["13.0"]}) == []
        )

    def test_unsure(self, tmp_path: Path) -> None:
        """B-60: a fat binary that cannot be read contradicts nothing, and that is said."""
        broken = elf_file(sections={".nv_fatbin": fat_binary("sm_80", "sm_90")[:120]})
        assert short(found(tmp_path, broken, nvidia=arch("90_real"))) == [
            ("unreadable-binary", "warning"),
        ]

    def test_unclaimed(self, tmp_path: Path) -> None:
        """B-60: code that nobody takes the wheel for is named."""
        findings = found(tmp_path, code("sm_75", "sm_80", "sm_86"), nvidia=arch("80_real"))
        assert short(findings) == [("unclaimed-code", "note")]
        assert "sm_75" in findings[0].message
        assert "sm_86" not in findings[0].message  # 8.6 takes what is for 8.0


class TestAmd:
    """Code for AMD's GPUs."""

    @pytest.mark.parametrize(
        ("targets", "expected"),
        [
            (["gfx90a", "gfx1201"], []),
            (["gfx90a:xnack+", "gfx12-generic"], []),
            (["gfx1201"], [("no-such-code", "error")]),
            (["gfx90a", "gfx1201", "gfx942"], [("unclaimed-code", "note")]),
        ],
    )
    def test_targets(
        self, tmp_path: Path, targets: list[str], expected: list[tuple[str, str]]
    ) -> None:
        """B-60: a value without code is an error, code without a value is told."""
        library = elf_file(sections={".hip_fatbin": offload_bundle(*targets)})
        assert short(found(tmp_path, library, amd=["gfx1201", "gfx90a"])) == expected

    def test_some_and_none(self, tmp_path: Path) -> None:
        """One library that lacks what another has is a warning, no code at all a note."""
        libraries = [
            elf_file(sections={".hip_fatbin": offload_bundle(*targets)})
            for targets in (["gfx90a", "gfx942"], ["gfx942"])
        ]
        claims = ["gfx90a", "gfx942"]
        assert short(found(tmp_path, *libraries, amd=claims)) == [("no-such-code", "warning")]
        assert short(found(tmp_path, elf_file(), amd=claims)) == [("no-such-code", "note")]


class TestDrivers:
    """What drivers the wheel needs."""

    @pytest.mark.parametrize(
        ("bound", "needed", "severity"),
        [
            ("12.8", "libcudart.so.13", "error"),
            ("12.0", "libcudart.so.12", None),
            ("12", "libcublas.so.12", None),
            ("11.8", "libcudart.so.12", "error"),
            ("13.0", "libcudart.so.12", "note"),
            ("12.0", "libcufft.so.11", None),  # its numbers are its own
            ("12.0", "libcudart.so.11.0", "note"),
        ],
    )
    def test_majors(self, tmp_path: Path, bound: str, needed: str, severity: str | None) -> None:
        """P-92, P-93: the lower bound fits the major of the libraries."""
        library = code("sm_90", needed=[needed])
        findings = short(found(tmp_path, library, nvidia=arch("90_real", bound=bound)))
        assert findings == ([] if severity is None else [("wrong-cuda-bound", severity)])

    def test_no_bound(self, tmp_path: Path) -> None:
        """P-93: a wheel that needs CUDA says which."""
        library = code("sm_90", needed=["libcudart.so.12"])
        assert short(found(tmp_path, library, nvidia={"sm_arch": ["90_real"]})) == [
            ("wrong-cuda-bound", "warning")
        ]

    @pytest.mark.parametrize(
        ("bound", "isa", "is_found"),
        [
            ("12.0", "8.7", True),
            ("12.7", "8.7", True),
            ("12.8", "8.7", False),
            ("13", "9.0", False),
        ],
    )
    def test_ptx(self, tmp_path: Path, bound: str, isa: str, is_found: bool) -> None:  # noqa: FBT001
        """P-91, P-93: PTX that is relied on needs a driver as new as the compiler."""
        library = code("sm_80", f"compute_90 {isa}")
        findings = found(tmp_path, library, nvidia=arch("80_real", "90_virtual", bound=bound))
        assert short(findings) == [("wrong-cuda-bound", "error")] * is_found

    def test_ptx_for_newer_gpus(self, tmp_path: Path) -> None:
        """P-93: PTX that only newer GPUs need asks for nothing: their drivers are newer too."""
        library = code("sm_80", "sm_86", "sm_89", "sm_90", "compute_90 8.4")
        values = ["80_real", "86_real", "89_real", "90_real", "90_virtual"]
        assert found(tmp_path, library, nvidia=arch(*values, bound="12.0")) == []

    def test_ptx_that_nobody_relies_on(self, tmp_path: Path) -> None:
        """P-93: PTX beside machine code asks nothing of the driver where no value stands for it."""
        library = code("sm_90", "compute_90 8.7")
        findings = found(tmp_path, library, nvidia=arch("90_real", bound="12.0"))
        assert "wrong-cuda-bound" not in {finding.code for finding in findings}


class TestLevels:
    """Levels of x86-64."""

    @pytest.mark.parametrize(
        ("level", "bits", "severity"),
        [
            (["v3"], 0b111, None),
            (["v4"], 0b111, None),
            (["v2"], 0b111, "error"),
            (["v2", "v3"], 0b111, "error"),
            (None, 0b111, "warning"),
            (None, 0b1, None),
            (["v2"], 0, None),
        ],
    )
    def test_level(
        self, tmp_path: Path, level: list[str] | None, bits: int, severity: str | None
    ) -> None:
        """P-102: the level is not below what the loader asks for."""
        findings = short(found(tmp_path, elf_file(levels_needed=bits), level=level))
        assert findings == ([] if severity is None else [("level-too-low", severity)])

    @pytest.mark.parametrize(
        ("level", "severity"), [(None, "warning"), (["v2"], "error"), (["v3"], None)]
    )
    def test_code_that_always_runs(
        self, tmp_path: Path, level: list[str] | None, severity: str | None
    ) -> None:
        """P-102: code of a higher level is found if it runs on any processor, when asked for."""
        library = compiled(tmp_path / "sources", MODULE)
        folder = tmp_path / "wheels"
        found(folder, library, level=level)
        findings = [
            finding
            for finding in check(folder, binaries=True, instructions=True).findings
            if finding.code == "unguarded-code"
        ]
        assert short(findings) == ([] if severity is None else [("unguarded-code", severity)])
        if findings:
            standing = "the wheel claims v2" if level else "the wheel claims no level"
            assert standing in findings[0].message
        assert "unguarded-code" not in codes(check(folder, binaries=True))


class TestPlatforms:
    """Platform tags."""

    @pytest.mark.parametrize(
        ("tag", "binary", "expected"),
        [
            ("manylinux_2_28_x86_64", elf_file(machine=183), ("foreign-binary", "error")),
            ("manylinux_2_28_aarch64", elf_file(machine=183), None),
            ("linux_x86_64", elf_file(versions={"libc.so.6": ["GLIBC_2.40"]}), None),
            ("win_amd64", elf_file(), ("foreign-binary", "error")),
            ("win_amd64", pe_file(), None),
            ("win_arm64", pe_file(), ("foreign-binary", "error")),
            ("macosx_11_0_arm64", macho_file(minimum=(11, 0)), None),
            ("macosx_11_0_arm64", macho_file(minimum=(14, 0)), ("platform-too-old", "error")),
            ("macosx_11_0_x86_64", macho_file(), ("foreign-binary", "error")),
            ("macosx_11_0_universal2", macho_file(), ("foreign-binary", "error")),
            (
                "macosx_10_9_universal2",
                universal_file(
                    (ARM, macho_file(minimum=(11, 0))),
                    (INTEL, macho_file(machine=INTEL, minimum=(10, 9))),
                ),
                ("platform-too-old", "note"),
            ),
            (
                "macosx_10_9_x86_64.macosx_11_0_arm64",
                universal_file(
                    (ARM, macho_file(minimum=(14, 0))),
                    (INTEL, macho_file(machine=INTEL, minimum=(10, 9))),
                ),
                ("platform-too-old", "error"),
            ),
            (
                "manylinux_2_28_x86_64",
                elf_file(versions={"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.28", "GLIBC_PRIVATE"]}),
                None,
            ),
            (
                "manylinux_2_17_x86_64",
                elf_file(versions={"libm.so.6": ["GLIBC_2.29"]}),
                ("platform-too-old", "error"),
            ),
            (
                "manylinux2014_x86_64",
                elf_file(versions={"libc.so.6": ["GLIBC_ABI_DT_RELR"]}),
                ("platform-too-old", "error"),
            ),
            (
                "musllinux_1_2_x86_64",
                elf_file(versions={"libc.so.6": ["GLIBC_2.17"]}),
                ("foreign-binary", "error"),
            ),
            ("any", elf_file(machine=183), None),
        ],
    )
    def test_tags(
        self, tmp_path: Path, tag: str, binary: bytes, expected: tuple[str, str] | None
    ) -> None:
        """F-15: the platform of the file name is that of the binaries."""
        findings = short(found(tmp_path, binary, tag=f"py3-none-{tag}"))
        assert findings == ([] if expected is None else [expected])

    def test_one_among_others(self, tmp_path: Path) -> None:
        """F-15: one foreign binary beside those that fit is a warning: it may be meant."""
        findings = found(tmp_path, elf_file(), elf_file(machine=183))
        assert short(findings) == [("foreign-binary", "warning")]
        assert "lib1.so is for aarch64" in findings[0].message


def test_damaged(tmp_path: Path) -> None:
    """B-38: a binary that is damaged in the archive is a finding, and the rest is checked."""
    large = elf_file(sections={".data": random.Random(7).randbytes(1 << 20)})
    wheel = build_wheel(tmp_path, "fast", "1.0", files={"fast/a.so": large}, tag=LINUX)
    data = bytearray(wheel.read_bytes())
    data[len(data) // 2] ^= 0xFF
    wheel.write_bytes(bytes(data))
    report = check(wheel, binaries=True)
    assert [finding.code for finding in report.findings] == ["damaged-content"]


def test_only_when_asked(tmp_path: Path) -> None:
    """B-60: without being asked no binary is unpacked."""
    build_wheel(tmp_path, "fast", "1.0", files={"fast/a.so": elf_file(machine=183)}, tag=LINUX)
    assert not check(tmp_path, full=True).findings
