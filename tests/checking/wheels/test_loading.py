"""What the binaries of a wheel load and leave behind is held against where they will run."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from checking.broken_wheels import LINUX, STABLE, plain, stable_module
from checking.releases import check

from wheelfit.checking.findings import Finding
from wheelfit.testing.binaries import elf_file, macho_file, pe_file, universal_file

MACOS = "cp313-cp313-macosx_11_0_arm64"


def found(folder: Path, code: str, tag: str = LINUX, **files: bytes) -> list[Finding]:
    """Return what a check finds in a wheel with some libraries in its package."""
    placed = {f"fast/{name}.so": content for name, content in files.items()}
    report = check(plain(folder, tag=tag, files=placed), binaries=True)
    return [finding for finding in report.findings if finding.code == code]


def severities(findings: list[Finding]) -> list[str]:
    """Return severities, sorted."""
    return sorted(finding.severity for finding in findings)


class TestLibraries:
    """Libraries that are needed."""

    def test_in_the_wheel(self, tmp_path: Path) -> None:
        """F-15: nothing is found where the wheel or every system has the library."""
        user = elf_file(needed=["libown.so.1", "other.so", "libc.so.6", "libstdc++.so.6"])
        own, other = elf_file(soname="libown.so.1"), elf_file()
        assert not found(tmp_path, "external-library", user=user, own=own, other=other)

    def test_nowhere(self, tmp_path: Path) -> None:
        """F-15: all that is missing is one warning, with who needs it."""
        one = elf_file(needed=["libb.so.1", "liba.so.1"])
        (finding,) = found(
            tmp_path, "external-library", one=one, two=elf_file(needed=["libb.so.1"])
        )
        assert finding.severity == "warning"
        assert (
            "needed by fast/one.so and fast/two.so, but not in the wheel: liba.so.1 and libb.so.1"
            in finding.message
        )
        assert "which manylinux_2_28_x86_64 does not guarantee" in finding.message

    @pytest.mark.parametrize(
        ("runpath", "needed"),
        [
            ("", "libcuda.so.1"),
            ("$ORIGIN/../nvidia/cublas/lib", "libcublas.so.12"),
        ],
    )
    def test_elsewhere(self, tmp_path: Path, runpath: str, needed: str) -> None:
        """F-15: libraries of drivers, and those of other packages, are worth a note."""
        user = elf_file(needed=[needed], runpath=runpath)
        assert severities(found(tmp_path, "external-library", user=user)) == ["note"]

    def test_own_folder_is_not_elsewhere(self, tmp_path: Path) -> None:
        """F-15: who looks into the own package and does not find it, has forgotten it."""
        user = elf_file(needed=["liba.so.1"], runpath="$ORIGIN:$ORIGIN/../fast/libs")
        assert severities(found(tmp_path, "external-library", user=user)) == ["warning"]

    def test_without_a_promise(self, tmp_path: Path) -> None:
        """F-15: a tag of one's own Linux promises nothing, so nothing is missing."""
        user = elf_file(needed=["liba.so.1"])
        tag = "cp313-cp313-linux_x86_64"
        assert not found(tmp_path, "external-library", tag, user=user)

    def test_versions_of_own_libraries(self, tmp_path: Path) -> None:
        """F-15: a libstdc++ in the wheel may be as new as it likes."""
        cpp = "libstdc++.so.6"
        user = elf_file(needed=[cpp], versions={cpp: ["GLIBCXX_3.4.33"]})
        assert found(tmp_path / "1", "platform-too-old", user=user)
        assert not found(tmp_path / "2", "platform-too-old", user=user, own=elf_file(soname=cpp))


@pytest.mark.parametrize(
    ("runpath", "expected"),
    [
        ("$ORIGIN", []),
        ("${ORIGIN}/../fast.libs", []),
        ("$ORIGIN/../nvidia/cublas/lib", []),
        ("/usr/lib64", []),  # searched in any case
        ("$ORIGIN/../../..", ["note"]),  # the libraries of an environment
        ("$ORIGIN/../../../../lib", ["note"]),
        ("$ORIGIN/../../more", ["warning"]),
        ("/usr/local/cuda/lib64:/home/ann/build", ["warning"]),
        ("$ORIGIN/../lib:", ["warning"]),  # the folder in which somebody starts Python
        ("build", ["warning"]),
    ],
)
def test_search_paths(tmp_path: Path, runpath: str, expected: list[str]) -> None:
    """B-34: a search path stays within what is installed for Python."""
    findings = found(tmp_path, "rpath-leads-out", user=elf_file(runpath=runpath))
    assert severities(findings) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"/home/ann/fast/core.c", ["warning"]),
        (rb"C:\Users\Ann\fast\core.cpp", ["warning"]),
        (b"/home/runner/work/fast/core.c", ["note"]),
        (b"/root/.cargo/registry/src/lib.rs", ["note"]),
        (b"/home/buildozer/aports/basic_string.h", ["note"]),
        (b"/home/ann", []),  # no source
        (b"/usr/home/core.c", []),
        (b"/tmp/socket", []),
    ],
)
def test_build_paths(tmp_path: Path, text: bytes, expected: list[str]) -> None:
    """B-34: paths of sources are found, and homes of people count for more."""
    binary = elf_file(sections={".rodata": b"\0" + text + b"\0"})
    assert severities(found(tmp_path, "build-path", user=binary)) == expected


@pytest.mark.parametrize(("size", "expected"), [(900_000, []), (1_100_000, ["warning"])])
def test_debug_information(tmp_path: Path, size: int, expected: list[str]) -> None:
    """B-34: debug information is found from a size on."""
    binary = elf_file(sections={".debug_str": bytes(size)})
    assert severities(found(tmp_path, "debug-symbols", user=binary)) == expected


@pytest.mark.parametrize(
    ("symbol", "tag", "message"),
    [
        ("PyList_New", STABLE, None),
        ("_PyDict_SetItem_KnownHash", STABLE, "symbols outside of the stable ABI"),
        ("_PyDict_SetItem_KnownHash", LINUX, None),  # promises nothing
        ("PyType_GetName", STABLE, "of Python 3.11 (PyType_GetName); the tag allows 3.9"),
        ("PyType_GetName", STABLE.replace("cp39", "cp311"), None),
        ("PyType_GetName", STABLE.replace("cp39-abi3", "cp315-abi3t"), None),
    ],
)
def test_stable_abi(tmp_path: Path, symbol: str, tag: str, message: str | None) -> None:
    """F-15: a wheel for the stable ABI uses what the oldest Python of its tag promises."""
    pytest.importorskip("abi3info")
    findings = found(tmp_path, "outside-stable-abi", tag, user=stable_module(symbol))
    assert [message in finding.message for finding in findings if message] == [True] * bool(message)
    assert len(findings) == bool(message)


def test_musl_with_the_unwinder_of_gcc(tmp_path: Path) -> None:
    """F-15: libgcc has a version GLIBC_2.0 on most machines, which makes no glibc of musl."""
    versions = {"libgcc_s-85f2cd6d.so.1": ["GCC_3.0", "GLIBC_2.0"]}
    binary = elf_file(needed=list(versions), versions=versions)
    tag = "cp313-cp313-musllinux_1_2_x86_64"
    assert not found(tmp_path, "foreign-binary", tag, user=binary)


def test_macos_versions(tmp_path: Path) -> None:
    """F-15: no tag can name the minor of a yearly macOS, so that is a warning."""
    newer = macho_file(minimum=(11, 3))
    assert severities(found(tmp_path / "1", "platform-too-old", MACOS, user=newer)) == ["warning"]
    next_year = macho_file(minimum=(12, 0))
    assert severities(found(tmp_path / "2", "platform-too-old", MACOS, user=next_year)) == ["error"]


def test_debug_information_for_windows(tmp_path: Path) -> None:
    """B-34: sections of MinGW's debug information have long names, which lie elsewhere."""
    plain_file = pe_file(sections={"/4": bytes(2_000_000), "/16": bytes(3_000_000)})
    header = plain_file.index(b"PE\0\0")
    data = bytearray(plain_file + struct.pack("<I", 22) + b".debug_info\0.other\0")
    struct.pack_into("<II", data, header + 12, len(plain_file), 0)
    files = {"fast/user.pyd": bytes(data)}
    report = check(plain(tmp_path, tag="cp313-cp313-win_amd64", files=files), binaries=True)
    (finding,) = [finding for finding in report.findings if finding.code == "debug-symbols"]
    assert "2.0 MB" in finding.message


def test_debug_information_for_macos(tmp_path: Path) -> None:
    """B-34: the segment of debug information counts for each machine."""
    two = universal_file(
        (0x0100000C, macho_file(debug=1_500_000)),
        (0x01000007, macho_file(machine=0x01000007, debug=1_000_000)),
    )
    (finding,) = found(tmp_path, "debug-symbols", MACOS, user=two)
    assert "2.5 MB" in finding.message
