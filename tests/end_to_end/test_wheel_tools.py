"""Wheels that ``wheelfit wheel`` writes, in the hands of other tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.archive import WheelArchive

TABLE = """
[variant.default-priorities]
namespace = ["x86_64", "blas"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
plugin-api = "x86_64_variant_provider"
[variant.providers.blas.static-properties]
library = ["openblas", "mkl"]
"""
V3 = "x86_64 :: level :: v3"


@pytest.fixture
def run(bare_environment: None, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return what runs a command."""
    del bare_environment
    return Runner(capsys)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Build a plain wheel beside a project."""
    (tmp_path / "pyproject.toml").write_text(TABLE)
    return build_wheel(
        tmp_path / "in", "fast", "1.0", requires=['other; variant_label == "v3"'],
        files={"fast/__init__.py": "NAME = 'fast'\n"},
    )  # fmt: skip


@pytest.mark.parametrize("label", ["v3", None])
def test_as_variantlib_makes_them(
    plain: Path,
    tmp_path: Path,
    run: Runner,
    environment_with: Callable[..., Path],
    label: str | None,
) -> None:
    """F-141, B-2: name and document are those of the reference library; so is every member."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    program = environment_with("variantlib[cli]==0.2.2").parent / "variantlib"
    named = [] if label is None else ["--variant-label", label]
    subprocess.run(
        [
            program, "make-variant", "-f", plain, "-o", theirs,
            "-p", V3, *named, "--skip-plugin-validation",
            "--pyproject-toml", tmp_path / "pyproject.toml",
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    words = [] if label is None else ["--label", label]
    run("wheel", "make", plain, "-o", ours, "--project", tmp_path, "-p", V3, *words)
    (one,), (other,) = theirs.iterdir(), ours.iterdir()
    assert one.name == other.name
    with WheelArchive(one) as first, WheelArchive(other) as second:
        assert set(first.names()) == set(second.names())
        for name in first.names():
            if name.endswith("/variant.json"):
                pair = [json.loads(first.read(name)), json.loads(second.read(name))]
                assert pair[0]["variants"] == pair[1]["variants"]
                assert pair[0]["providers"] == pair[1]["providers"]
                assert pair[0]["default-priorities"] == pair[1]["default-priorities"]
            elif not name.endswith("/RECORD"):
                assert first.read(name) == second.read(name)


def test_variantlib_reads_a_release(
    plain: Path, tmp_path: Path, run: Runner, variantlib_python: Path
) -> None:
    """B-50: of what was made, relabelled and repacked the reference library makes an index file."""
    out = tmp_path / "out"
    table = ("--project", tmp_path)
    run("wheel", "make", plain, "-o", out, *table, "-p", V3, "--label", "v3")
    run("wheel", "make", plain, "-o", out, *table, "--null")
    run("wheel", "relabel", out / "fast-1.0-py3-none-any-v3.whl", "--label", "level3")
    mkl = ("-p", "blas :: library :: mkl", "--label", "mkl")
    run("wheel", "repack", plain, "-o", out, *table, *mkl, "--remove-dependency", "other")
    program = variantlib_python.parent / "variantlib"
    command: list[str | Path] = [program, "generate-index-json", "--directory", out]
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads((out / "fast-1.0-variants.json").read_text())
    assert set(found["variants"]) == {"v3", "null", "level3", "mkl"}
    assert found["variants"]["level3"] == found["variants"]["v3"]


def with_uv(uv: Path) -> list[str | Path]:
    """Return the beginning of a command line that installs one file."""
    return [uv, "pip", "install", "--offline", "--no-index", "--python", sys.executable]


def test_pip_and_uv_install_what_is_plain_again(
    plain: Path, tmp_path: Path, run: Runner, pip: Path, uv: Path
) -> None:
    """B-32, B-40: a variant that is unmade is a wheel that pip and uv install and understand."""
    out = tmp_path / "out"
    run("wheel", "make", plain, "-o", out, "--project", tmp_path, "-p", V3, "--label", "v3")
    run("wheel", "unmake", out / "fast-1.0-py3-none-any-v3.whl")
    wheel = out / "fast-1.0-py3-none-any.whl"
    commands: list[list[str | Path]] = [
        [pip, "install", "--no-index", "--target", tmp_path / "pip", wheel],
        [*with_uv(uv), "--target", tmp_path / "uv", wheel],
    ]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
    for tool in ("pip", "uv"):
        assert (tmp_path / tool / "fast/__init__.py").read_text() == "NAME = 'fast'\n"
        assert not list((tmp_path / tool).rglob("variant.json"))


def test_uv_installs_a_renamed_wheel(plain: Path, tmp_path: Path, run: Runner, uv: Path) -> None:
    """B-43: name and version agree everywhere, as uv demands."""
    out = tmp_path / "out"
    words = ("--name", "Faster", "--set-version", "2", "--remove-dependency", "other")
    run("wheel", "repack", plain, "-o", out, *words)
    target = tmp_path / "uv"
    command = [*with_uv(uv), "--target", target, out / "faster-2-py3-none-any.whl"]
    subprocess.run(command, check=True, capture_output=True)
    assert (target / "fast/__init__.py").exists()
    assert (target / "faster-2.dist-info/RECORD").exists()
