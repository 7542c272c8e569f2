"""``wheelfit wheel inspect``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.binaries import elf_file, fat_binary
from wheelfit.testing.wheels import build_wheel

NATIVE = elf_file(
    soname="libfast.so.1",
    needed=["libc.so.6", "libcudart.so.12"],
    runpath="$ORIGIN",
    versions={"libc.so.6": ["GLIBC_2.9", "GLIBC_2.28"], "libm.so.6": ["GLIBC_2.17"]},
    levels_needed=0b111,
    sections={
        ".nv_fatbin": fat_binary("sm_80", "sm_90a", "compute_90 8.7"),
        "__nv_relfatbin": fat_binary("sm_70"),
    },
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Build a wheel with two libraries, one of them truncated."""
    files = {"fast/_native.so": NATIVE, "fast/_broken.so": NATIVE[:30]}
    tag = "cp313-cp313-manylinux_2_28_x86_64"
    return build_wheel(tmp_path, "fast", "1.0", files=files, tag=tag)


def test_text_output(wheel: Path, run: Runner) -> None:
    """B-60: each library is listed with its facts, and the properties that follow."""
    result = run("wheel", "inspect", wheel)
    assert result.out.splitlines() == [
        str(wheel),
        f"  fast/_native.so (elf, x86_64, {len(NATIVE) / 1000:.1f} kB)",
        "    soname       libfast.so.1",
        "    needs        libc.so.6, libcudart.so.12",
        "    rpath        $ORIGIN",
        "    versions     GLIBC_2.28",
        "    x86-64       needs v3",
        "    GPUs         sm_80, sm_90a, compute_90 (PTX 8.7)",
        "    unlinked     sm_70",
        "  fast/_broken.so (elf, 30 B)",
        "    unknown      it is not a valid ELF file: its header is cut off",
        "  properties that the binaries show:",
        "    nvidia :: cuda_version_lower_bound :: 12.0",
        "    nvidia :: sm_arch :: 80_real",
        "    nvidia :: sm_arch :: 90_real",
        "    nvidia :: sm_arch :: 90_virtual",
        "    nvidia :: sm_arch :: 90a_real",
        "    x86_64 :: level :: v3",
        "  note: fast/_broken.so: it is not a valid ELF file: its header is cut off",
    ]


def test_json_report(wheel: Path, run: Runner) -> None:
    """B-60: the JSON object has the properties, and the facts of each binary."""
    found = run("wheel", "inspect", wheel, "--json").object
    (one,) = found["wheels"]
    assert one["properties"] == [
        "nvidia :: cuda_version_lower_bound :: 12.0",
        "nvidia :: sm_arch :: 80_real",
        "nvidia :: sm_arch :: 90_real",
        "nvidia :: sm_arch :: 90_virtual",
        "nvidia :: sm_arch :: 90a_real",
        "x86_64 :: level :: v3",
    ]
    assert one["binaries"][0]["code"][-1] == {
        "kind": "ptx",
        "architecture": "90",
        "version": "8.7",
    }


def test_bare_library(tmp_path: Path, run: Runner) -> None:
    """B-60: A bare library is inspected too."""
    path = tmp_path / "libfast.so"
    path.write_bytes(NATIVE)
    assert "sm_90a" in run("wheel", "inspect", path).out


def test_no_binaries(tmp_path: Path, run: Runner) -> None:
    """B-60: A wheel without binaries is not an error; other files are."""
    assert "no binaries" in run("wheel", "inspect", build_wheel(tmp_path, "fast", "1.0")).out
    path = tmp_path / "text.txt"
    path.write_text("text")
    assert run("wheel", "inspect", path, "--json", code=1).error["code"] == "file-problem"
    gone = tmp_path / "gone.so"
    assert run("wheel", "inspect", gone, "--json", code=1).error["where"] == str(gone)


def test_folder(wheel: Path, run: Runner) -> None:
    """B-60: all wheels of a folder are inspected; a missing wheel is an error."""
    (shown,) = run("wheel", "inspect", wheel.parent, "--json").object["wheels"]
    assert shown["path"] == str(wheel)
    gone = run("wheel", "inspect", "gone.whl", "--json", code=1).error
    assert (gone["code"], gone["where"]) == ("file-problem", "gone.whl")


def test_missing_extra(wheel: Path) -> None:
    """B-60: without the extra everything but instructions is shown."""

    def inspected(*words: str) -> subprocess.CompletedProcess[str]:
        arguments = ["wheel", "inspect", str(wheel), *words]
        program = (
            "import sys; sys.modules['elftools'] = sys.modules['iced_x86'] = None\n"
            f"from wheelfit.cli.main import main; sys.exit(main({arguments}))"
        )
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )

    done = inspected()
    assert (done.returncode, done.stderr) == (0, "")
    assert "needs v3" in done.stdout
    refused = inspected("--instructions")
    assert refused.returncode == 1
    assert "needs-extra" in refused.stderr
    assert "pip install ./runtime '.[build]'" in refused.stderr
