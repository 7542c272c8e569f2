"""The build backend around that of a project, asked by a front end that knows no variants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from projects.writing import write_project
from python_runs import printed_by, run_python

from wheelfit.wheels.archive import WheelArchive

pytestmark = pytest.mark.integration

TABLE = """
[variant.default-priorities]
namespace = ["x86_64"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
[variant.variants.v3]
x86_64.level = ["v3"]
"""
OWN = 'backend = "own_backend"\nbackend-path = ["."]\n'
SAYS = """
import tarfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    text = json.dumps([config_settings, os.environ.get("BLAS")])
    return write(folder, STEM + "-py3-none-any.whl", {"demo.py": text, **records()})

def build_sdist(folder, config_settings=None):
    with tarfile.open(os.path.join(folder, STEM + ".tar.gz"), "w:gz") as archive:
        for one in ("about.json", "own_backend.py", "pyproject.toml"):
            archive.add(os.path.join(HERE, one), STEM + "/" + one)
        with open(os.path.join(folder, "PKG-INFO"), "w") as file:
            file.write(metadata())
        archive.add(file.name, STEM + "/PKG-INFO")
    os.unlink(file.name)
    return STEM + ".tar.gz"
"""
"""Writes down what it was told."""
Front = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a project whose backend is ours, around its own."""
    return hooked(tmp_path, OWN)


def hooked(folder: Path, table: str) -> Path:
    """Write a project with a table of ours."""
    place = write_project(folder / "demo", "demo", "1.0", backend=SAYS)
    path = place / "pyproject.toml"
    text = path.read_text()
    assert '\nbackend-path = ["."]\n' in text
    text = text.replace('"own_backend"', '"wheelfit.backend"').replace('\nbackend-path = ["."]', "")
    path.write_text(f"{text}{TABLE}\n[tool.wheelfit.build]\n{table}")
    return place


@pytest.fixture
def front(project: Path) -> Front:
    """Return what lets ``python -m build`` build the project here, without a network."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "NO_COLOR": "1"}
        return run_python("-m", "build", "--no-isolation", *words, project, environ=environ)

    return run


def told(wheel: Path) -> object:
    """Return what the own backend was told."""
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(archive.read("demo.py"))


def test_a_variant(front: Front, project: Path) -> None:
    """B-16: the settings ask for a variant; the own backend hears of all others."""
    done = front("--wheel", "-Cvariant-label=v3", "-Cmode=fast")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (project / "dist").iterdir()
    assert wheel.name == "demo-1.0-py3-none-any-v3.whl"
    assert told(wheel) == [{"mode": "fast"}, None]
    with WheelArchive(wheel) as archive:
        archive.verify()


def test_everything_else_is_passed_on(front: Front, project: Path) -> None:
    """B-10: unasked it is the own backend: a source distribution, and a plain wheel of that."""
    assert front("-Cmode=fast").returncode == 0
    assert {path.name for path in (project / "dist").iterdir()} == {
        "demo-1.0.tar.gz",
        "demo-1.0-py3-none-any.whl",
    }
    assert told(project / "dist/demo-1.0-py3-none-any.whl") == [{"mode": "fast"}, None]


def test_the_table_counts_for_plain_wheels_too(front: Front, project: Path) -> None:
    """A recipe for every wheel is followed by other front ends as by ``wheelfit build``."""
    path = project / "pyproject.toml"
    path.write_text(f'{path.read_text()}environment = {{ BLAS = "mkl" }}\n')
    assert front("--wheel").returncode == 0
    (wheel,) = (project / "dist").iterdir()
    assert (wheel.name, told(wheel)) == ("demo-1.0-py3-none-any.whl", [None, "mkl"])


def test_what_is_wrong_is_said(front: Front, project: Path) -> None:
    """The reason stands in what the front end shows, without the stack of calls."""
    done = front("--wheel", "-Cvariant-label=v9")
    assert done.returncode != 0
    assert "there is no label v9 to build; there are: v3" in done.stdout + done.stderr
    path = project / "pyproject.toml"
    sound = path.read_text()
    path.write_text(sound.replace(OWN, ""))
    assert "must have backend = " in front("--wheel").stderr
    path.write_text(sound.replace('backend-path = ["."]', 'backend-path = "."'))
    assert "must be a list of strings" in front("--wheel").stderr
    path.write_text(sound.replace('level = ["v3"]', 'level = ["V 3"]'))
    done = front("--wheel")
    assert "variant.variants.v3" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_wheelfit_build_asks_the_own_backend(project: Path, tmp_path: Path) -> None:
    """``wheelfit build`` understands such a project, and nothing is done twice."""
    out = tmp_path / "dist"
    words = ["--no-isolation", "--no-index", "--python", sys.executable, "-o", str(out)]
    report = json.loads(printed_by("-m", "wheelfit", "build", project, "--all", "--json", *words))
    assert report["backend"] == "own_backend"
    assert [wheel["label"] for wheel in report["wheels"]] == [None, "v3"]
    assert told(out / "demo-1.0-py3-none-any-v3.whl") == [None, None]


def test_hooks_that_the_own_backend_lacks(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PEP 517: a front end sees the optional hooks of the own backend and no others."""
    monkeypatch.chdir(project)
    code = "import wheelfit.backend as b; print([hasattr(b, n) for n in NAMES])"
    names = ["build_sdist", "prepare_metadata_for_build_wheel", "get_requires_for_build_sdist", "x"]
    for more, expected in (("", [True, True, False, False]), ("\ndependencies = ['six']", None)):
        path = project / "pyproject.toml"
        path.write_text(path.read_text() + more)
        printed = printed_by("-c", f"NAMES = {names}; {code}").strip()
        assert printed == str(expected or [True, False, False, False])
