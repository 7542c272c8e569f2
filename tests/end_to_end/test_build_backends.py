"""``wheelfit build`` with real build backends, checked with the reference library."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from end_to_end.backends import FLIT, HATCHLING, MESON, SCIKIT, SETUPTOOLS, write
from programs import run_program

from wheelfit.building.index_file import read_wheel_document
from wheelfit.core.metadata import to_mapping

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("registry")]

Build = Callable[..., dict[str, Any]]
PROJECTS = {
    "hatchling": HATCHLING,
    "flit-core": FLIT,
    "setuptools": SETUPTOOLS,
    "meson-python": MESON,
    "scikit-build-core": SCIKIT,
}
PACKAGES = {
    "setuptools": "set_demo",
    "meson-python": "meson_demo",
    "scikit-build-core": "scikit_demo",
}
"""Of the projects that have something to compile."""
LABELS = [None, "null", "v3", "v1"]


@pytest.fixture
def build(wheelfit: Callable[..., str], tmp_path: Path) -> Build:
    """Return a function that builds a backend's project into ``dist``, and returns its JSON."""

    def run(files: dict[str, str], *words: str | Path, more: str = "") -> dict[str, Any]:
        project = write(tmp_path / "project", files, more)
        result = wheelfit("build", project, "-o", tmp_path / "dist", "--json", *words)
        found: dict[str, Any] = json.loads(result)
        return found

    return run


def by_label(said: Mapping[str, Any]) -> dict[str | None, Any]:
    """Return the wheels of a result by their labels."""
    return {wheel["label"]: wheel for wheel in said["wheels"]}


def instructions(wheel: Mapping[str, Any], folder: Path) -> str:
    """Return the disassembled compiled module of a wheel."""
    program = shutil.which("objdump")
    if program is None:
        pytest.skip("needs objdump, which comes with compilers")
    with zipfile.ZipFile(wheel["path"]) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".so")]
        path = archive.extract(name, folder / f"{wheel['label']}")
    return subprocess.run([program, "-d", path], capture_output=True, text=True, check=True).stdout


def total(wheel: Mapping[str, Any], package: str) -> int:
    """Run the compiled function of a wheel."""
    code = f"from {package}.fast import total; print(total(3))"
    with zipfile.ZipFile(wheel["path"]) as archive:
        place = Path(wheel["path"]).with_suffix(".unpacked")
        archive.extractall(place)
    completed = run_program(sys.executable, "-c", code, cwd=place)
    return int(completed.stdout)


@pytest.mark.parametrize("backend", PROJECTS)
def test_every_backend(backend: str, build: Build, tmp_path: Path, variantlib_python: Path) -> None:
    """B-17: backends without support for variants build wheels that variantlib reads."""
    result = build(PROJECTS[backend], "--all", "--flags")
    wheels = by_label(result)
    assert list(wheels) == LABELS
    assert result["backend"].startswith(f"{backend} ")
    assert {wheel["method"] for wheel in result["wheels"]} == {"plain", "converted"}
    assert wheels["v3"]["validators"] == {"x86_64": "built-in provider"}
    assert wheels["v1"]["flags"] == ["-march=x86-64"]
    names = {path.name for path in (tmp_path / "dist").glob("*.whl")}
    assert names == {wheel["filename"] for wheel in result["wheels"]}
    theirs = read_by_variantlib(variantlib_python, tmp_path / "dist")
    levels = {label: {"x86_64": {"level": [label]}} for label in ("v1", "v3")}
    assert theirs["variants"] == {"null": {}, **levels}
    ours = to_mapping(read_wheel_document(Path(wheels["v3"]["path"])))
    assert {**theirs, "variants": ours["variants"], "$schema": ours["$schema"]} == ours
    if backend in PACKAGES:
        check_levels(result, PACKAGES[backend], tmp_path / "code")
    else:
        (text,) = [text for text in result["warnings"] if "-march=x86-64-v3" in text]
        assert "have the same contents" in text  # there is nothing to compile


def read_by_variantlib(python: Path, folder: Path) -> dict[str, Any]:
    """Let the reference library write the index file of the wheels in a folder."""
    program = python.parent / "variantlib"
    words = [str(program), "generate-index-json", "--directory", str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    (path,) = folder.glob("*-variants.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def check_levels(said: Mapping[str, Any], package: str, folder: Path) -> None:
    """B-26: the wheel for v3 has 256-bit vector instructions, those for older levels none."""
    wheels = by_label(said)
    code = {label: instructions(wheels[label], folder) for label in LABELS}
    # Arithmetic on integers of 256 bits is AVX2, not AVX.
    assert re.search(r"vp(mulld|addd) .*%ymm", code["v3"])
    for label in (None, "null", "v1"):
        assert "%ymm" not in code[label]
        assert re.search(r"\bp(muludq|addd) .*%xmm", code[label])
    assert not said["warnings"]
    assert total(wheels[None], package) == 6048
    check_optimisation(code)
    marks = {label: notes(wheels[label], folder) for label in LABELS}
    assert "x86 ISA needed: x86-64-v3" in marks["v3"] or not linker_marks(folder)
    assert "ISA needed" not in marks[None] + marks["null"] + marks["v1"]


def check_optimisation(code: Mapping[str | None, str]) -> None:
    """No wheel lacks the optimisation or the `NDEBUG` of the plain one."""
    for text in code.values():
        lines = [line for line in text.splitlines() if "\t" in line]
        # Without optimisation every variable is in the stack frame: a fifth of all instructions.
        assert sum("(%rbp)" in line for line in lines) < len(lines) / 8
        assert "__assert_fail" not in text


def notes(wheel: Mapping[str, Any], folder: Path) -> str:
    """Return the ELF notes of the compiled module of a wheel."""
    (path,) = (folder / f"{wheel['label']}").rglob("*.so")
    words = ["readelf", "-n", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def linker_marks(folder: Path) -> bool:
    """Return whether the linker can record the level that a library needs."""
    words = ["-shared", "-x", "c", os.devnull, "-Wl,-z,x86-64-v3", "-o", f"{folder}/empty.so"]
    subprocess.run(["cc", *words], check=False, capture_output=True)
    words = ["readelf", "-n", f"{folder}/empty.so"]
    return "x86-64-v3" in subprocess.run(words, capture_output=True, text=True, check=False).stdout


LONG = pytest.mark.backends_long


@pytest.mark.parametrize("backend", ["setuptools", pytest.param("scikit-build-core", marks=LONG)])
def test_no_reuse_between_builds(backend: str, build: Build, tmp_path: Path) -> None:
    """Results of a build without flags are not used in a wheel with flags."""
    project = tmp_path / "project"
    build(PROJECTS[backend])
    if backend == "setuptools":  # as whoever works there has it
        run_program(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "x", project)
        assert list(project.glob("build/**/*.o"))
    result = build(PROJECTS[backend], "--variant", "v3", "--flags")
    assert "%ymm" in instructions(by_label(result)["v3"], tmp_path / "code")


def test_in_tree_backend(build: Build, tmp_path: Path) -> None:
    """Setuptools behind an in-tree backend does not reuse old results either."""
    own = {
        **SETUPTOOLS,
        "own.py": "from setuptools.build_meta import *\n",
        "pyproject.toml": SETUPTOOLS["pyproject.toml"].replace(
            '"setuptools.build_meta"', '"own"\nbackend-path = ["."]'
        ),
    }
    result = build(own, "--variant", "v3", "--plain", "--flags", "-C--build-option=--verbose")
    assert result["backend"] == "own"
    assert "%ymm" in instructions(by_label(result)["v3"], tmp_path / "code")
    assert not (tmp_path / "project" / "build").exists()


def test_one_build_without_flags(build: Build, tmp_path: Path) -> None:
    """B-26: by default no flag is passed, and all wheels have the code of the plain one."""
    result = build(SETUPTOOLS, "--all")
    contents = set()
    for wheel in result["wheels"]:
        with zipfile.ZipFile(wheel["path"]) as archive:
            contents.add(archive.read(next(n for n in archive.namelist() if n.endswith(".so"))))
        assert wheel["flags"] == []
    assert len(contents) == 1
    assert "%ymm" not in instructions(result["wheels"][0], tmp_path / "code")


@pytest.mark.parametrize(
    ("words", "label", "told"),
    [
        pytest.param(["-C", "variant-name=x86_64::level::v3"], "fa7c1393", [""], marks=LONG),
        (["-C", "variant=x86_64::level::v3"], "fa7c1393", ["x86_64 :: level :: v3"]),
        pytest.param(["-C", "null-variant"], "null", [""], marks=LONG),
    ],
)
def test_meson_settings(build: Build, words: list[str], label: str, told: list[str]) -> None:
    """A-33: the build system gets the properties with ``variant=``, not with ``variant-name=``."""
    (wheel,) = build(MESON, *words)["wheels"]
    assert wheel["filename"].endswith(f"-{label}.whl")
    found: dict[str, Any] = {}
    with zipfile.ZipFile(wheel["path"]) as archive:
        exec(archive.read("meson_demo/__init__.py"), found)
    assert found["TOLD"] == told


@LONG
def test_settings_of_a_variant(build: Build) -> None:
    """A table of the project sets how a variant is built, here by an option of Meson."""
    more = '[tool.wheelfit.build.variants.v3]\nconfig-settings.setup-args = ["-Dvariant=own"]\n'
    result = build(MESON, "--all", more=more)
    found: dict[str, Any] = {}
    for wheel in result["wheels"]:
        with zipfile.ZipFile(wheel["path"]) as archive:
            exec(archive.read("meson_demo/__init__.py"), found)
        assert found["TOLD"] == (["own"] if wheel["label"] == "v3" else [""])


def test_dependencies_with_variant_markers(build: Build) -> None:
    """B-40: a backend that rejects them never sees them; the plain wheel has them resolved."""
    marker = "'v3' in variant_label"
    more = f'[tool.wheelfit.build]\ndependencies = ["six; {marker}", "idna"]\n'
    result = build(HATCHLING, "--variant", "v3", "--plain", more=more)
    needed = {}
    for label, wheel in by_label(result).items():
        with zipfile.ZipFile(wheel["path"]) as archive:
            (name,) = [one for one in archive.namelist() if one.endswith("/METADATA")]
            needed[label] = re.findall("Requires-Dist: (.*)", archive.read(name).decode())
    assert needed == {None: ["idna"], "v3": [f"six; {marker}", "idna"]}


SCIKIT_ON = {
    **SCIKIT,
    "pyproject.toml": SCIKIT["pyproject.toml"].replace(
        "[tool.scikit-build]", "[tool.scikit-build]\nexperimental = true"
    ),
}


def test_scikit_build_core_with_variants(build: Build) -> None:
    """B-18: a backend that could build variants builds a plain wheel, which is converted."""
    result = build(SCIKIT_ON, "--variant", "v3")
    assert result["wheels"][0]["method"] == "converted"
