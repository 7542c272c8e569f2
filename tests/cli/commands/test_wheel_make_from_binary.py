"""``wheelfit wheel make --from-binary``."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner

from wheelfit.testing.binaries import elf_file, fat_binary
from wheelfit.testing.wheels import build_wheel

TAG = "cp313-cp313-manylinux_2_28_x86_64"
NATIVE = elf_file(
    needed=["libcudart.so.12"],
    levels_needed=0b111,
    sections={".nv_fatbin": fat_binary("sm_80", "sm_90a", "compute_90 8.7")},
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Build a plain wheel with a library."""
    return build_wheel(tmp_path, "fast", "1.0", files={"fast/a.so": NATIVE}, tag=TAG)


def document(folder: Path) -> dict[str, Any]:
    """Return the document of the single wheel in a folder."""
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith("variant.json")]
        found: dict[str, Any] = json.loads(archive.read(name))
    return found


def test_properties_from_binaries(wheel: Path, tmp_path: Path, run: Runner) -> None:
    """B-60: the variant has the properties of the binaries, with their providers."""
    out = tmp_path / "out"
    result = run("wheel", "make", wheel, "--from-binary", "--label", "cu12", "-o", out)
    assert "left out" not in result.err
    made = document(out)
    assert made["variants"]["cu12"] == {
        "nvidia": {
            "cuda_version_lower_bound": ["12.0"],
            "sm_arch": ["80_real", "90_real", "90_virtual", "90a_real"],
        },
        "x86_64": {"level": ["v3"]},
    }
    assert set(made["providers"]) == {"nvidia", "x86_64"}
    checked = run("check", "--binaries", *out.glob("*.whl"), "--json").object
    assert not [finding for finding in checked["findings"] if finding["severity"] == "error"]


def test_given_properties(wheel: Path, tmp_path: Path, run: Runner) -> None:
    """B-60: given features are kept, others are added."""
    out = tmp_path / "out"
    given = ["--property", "nvidia :: sm_arch :: 80_real"]
    run("wheel", "make", wheel, "--from-binary", "--no-ptx", *given, "--label", "x", "-o", out)
    assert document(out)["variants"]["x"]["nvidia"] == {
        "cuda_version_lower_bound": ["12.0"],
        "sm_arch": ["80_real"],
    }


def test_ptx_only(tmp_path: Path, run: Runner) -> None:
    """P-93: GPUs with PTX only get a separate variant, with the bound of the PTX."""
    native = elf_file(
        needed=["libcudart.so.13"], sections={".nv_fatbin": fat_binary("sm_80", "compute_90 9.2")}
    )
    tag = TAG.replace("cp313-cp313", "py3-none")
    wheel = build_wheel(tmp_path, "fast", "1.0", files={"fast/a.so": native}, tag=tag)
    out = tmp_path / "out"
    result = run("wheel", "make", wheel, "--from-binary", "--label", "cu13", "-o", out)
    assert "90_virtual is left out" in result.err
    bound = ["--property", "nvidia :: cuda_version_lower_bound :: 13.2"]
    run("wheel", "make", wheel, "--from-binary", *bound, "--label", "ptx", "-o", tmp_path / "ptx")
    assert document(tmp_path / "ptx")["variants"]["ptx"]["nvidia"]["sm_arch"] == [
        "80_real",
        "90_virtual",
    ]
    # An H100 with a driver for 13.0 has nothing to compile that PTX with, one for 13.2 has.
    for folder, machine, fits in (
        (out, "cuda-13.0-sm80", True),
        (out, "cuda-13.2-sm90", False),
        (tmp_path / "ptx", "cuda-13.0-sm90", False),
        (tmp_path / "ptx", "cuda-13.2-sm90", True),
    ):
        options = ("--no-bridges", "--no-index", "--find-links", folder, "--for", machine)
        shown = run("explain", "fast", *options, "--json", code=0 if fits else 3).object
        assert (shown["projects"][0]["chosen"] is not None) == fits, machine


def test_no_properties(tmp_path: Path, run: Runner) -> None:
    """B-60: A wheel without properties is an error, and nothing is written."""
    plain = build_wheel(tmp_path, "fast", "1.0")
    out = tmp_path / "out"
    error = run("wheel", "make", plain, "--from-binary", "-o", out, "--json", code=1).error
    assert error["code"] == "file-problem"
    assert not list(out.glob("*"))
    run("wheel", "make", plain, "--from-binary", "--null", "-o", out, code=2)
