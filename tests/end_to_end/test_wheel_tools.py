"""Wheels written by ``wheelfit wheel``, in other tools."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import Runner
from programs import run_program

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
def plain(tmp_path: Path) -> Path:
    """Build a plain wheel beside a project."""
    (tmp_path / "pyproject.toml").write_text(TABLE)
    return build_wheel(
        tmp_path / "in", "fast", "1.0", requires=['other; variant_label == "v3"'],
        files={"fast/__init__.py": "NAME = 'fast'\n"},
    )  # fmt: skip


@pytest.mark.parametrize("label", ["v3", None])
def test_same_wheels_as_variantlib(
    plain: Path,
    tmp_path: Path,
    run: Runner,
    environment_with: Callable[..., Path],
    label: str | None,
) -> None:
    """F-141, B-2: name, document and all members equal those of the reference library."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    program = environment_with("variantlib[cli]==0.2.2").parent / "variantlib"
    named = [] if label is None else ["--variant-label", label]
    run_program(
        program, "make-variant", "-f", plain, "-o", theirs, "-p", V3, *named,
        "--skip-plugin-validation", "--pyproject-toml", tmp_path / "pyproject.toml",
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


def test_index_file_by_variantlib(
    plain: Path, tmp_path: Path, run: Runner, variantlib_python: Path
) -> None:
    """B-50: the reference library writes an index file of made, relabelled and repacked wheels."""
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
    """Return the start of a command line that installs one file."""
    return [uv, "pip", "install", "--offline", "--no-index", "--python", sys.executable]


def test_unmade_variant(plain: Path, tmp_path: Path, run: Runner, pip: Path, uv: Path) -> None:
    """B-32, B-40: pip and uv install a variant that was turned back into a plain wheel."""
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


RECIPE = Path(__file__).parents[2] / "docs/how-to/repack-existing-wheels.md"


@pytest.fixture
def release(tmp_path: Path, run: Runner) -> Path:
    """Repack a release with the commands of the how-to guide, and return its folder."""
    guide = RECIPE.read_text()
    config = guide.partition("```toml\n# repack.toml\n")[2].partition("```")[0]
    (tmp_path / "repack.toml").write_text(config)
    wheels = tmp_path / "wheels"
    for cuda, needed in (("cu126", "nvidia-cublas-cu12"), ("cu130", "nvidia-cublas"), ("cpu", "")):
        requires = ["filelock", *([f"{needed}==12.6.4.1"] if needed else [])]
        build_wheel(wheels, "torch", f"2.10.0+{cuda}", requires=requires)
    out = tmp_path / "dist"
    pattern = r"^wheelfit (wheel repack --config repack\.toml --project \. .* wheels/.*)$"
    commands = re.findall(pattern, guide, re.MULTILINE)
    assert len(commands) == 2
    places: dict[str, Path | str] = {"repack.toml": tmp_path / "repack.toml"}
    places |= {"--project": "--provider", ".": "nvidia", "dist": out, "wheels/": wheels}
    for command in commands:
        run(*(places.get(word, word) for word in command.split()))
    return out


def test_plain_wheel_of_a_repacked_release(
    release: Path, tmp_path: Path, run: Runner, pip: Path, uv: Path
) -> None:
    """B-40: the plain wheel of a repacked release is installable by every tool."""
    plain = release / "torch-2.10.0-py3-none-any.whl"
    assert metadata_of(plain).count("Requires-Dist:") == 1
    for label in ("cuda12.6", "cuda13.0"):
        variant = release / f"torch-2.10.0-py3-none-any-{label}.whl"
        assert f"variant_label == '{label}'" in metadata_of(variant)
    build_wheel(release, "filelock", "3")
    commands: list[list[str | Path]] = [
        [pip, "install", "--no-index", "--target", tmp_path / "pip"],
        [*with_uv(uv), "--target", tmp_path / "uv"],
    ]
    for command in commands:
        subprocess.run([*command, "-f", release, "torch"], check=True, capture_output=True)
    for tool in ("pip", "uv"):
        installed = {path.name for path in (tmp_path / tool).glob("*.dist-info")}
        assert installed == {"torch-2.10.0.dist-info", "filelock-3.dist-info"}
    run("check", "--full", release)


def test_plain_wheel_with_variant_markers(
    plain: Path, tmp_path: Path, run: Runner, pip: Path, uv: Path
) -> None:
    """B-40: an uninstallable plain wheel is repaired for every tool."""
    target = tmp_path / "pip"
    install: list[str | Path] = [pip, "install", "--no-index", "--target", target]
    failed = subprocess.run([*install, plain], check=False, capture_output=True)
    assert failed.returncode != 0
    run("check", plain, code=9)
    out = tmp_path / "out"
    run("wheel", "repack", plain, "-o", out, "--add-dependency", "small; 'x' in variant_namespaces")
    run("check", out)
    mended = out / plain.name
    assert "Requires-Dist" not in metadata_of(mended)
    subprocess.run([*install, mended], check=True, capture_output=True)
    uv_install = [*with_uv(uv), "--target", tmp_path / "uv", mended]
    subprocess.run(uv_install, check=True, capture_output=True)


def metadata_of(wheel: Path) -> str:
    """Return METADATA of a wheel."""
    with WheelArchive(wheel) as archive:
        return archive.metadata().decode()


def test_renamed_wheel(plain: Path, tmp_path: Path, run: Runner, uv: Path) -> None:
    """B-43: name and version agree everywhere, as uv demands."""
    out = tmp_path / "out"
    words = ("--name", "Faster", "--set-version", "2", "--remove-dependency", "other")
    run("wheel", "repack", plain, "-o", out, *words)
    target = tmp_path / "uv"
    command = [*with_uv(uv), "--target", target, out / "faster-2-py3-none-any.whl"]
    subprocess.run(command, check=True, capture_output=True)
    assert (target / "fast/__init__.py").exists()
    assert (target / "faster-2.dist-info/RECORD").exists()
