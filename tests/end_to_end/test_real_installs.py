"""Real packages of the package registry in new environments."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import run_program

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("registry")]

PROGRAMS = {
    "numpy": "import numpy; assert numpy.arange(3).sum() == 3",
    "rich": "import rich.console; rich.console.Console().print('[b]hello')",
    "httpx": "import httpx; httpx.Client().close()",
    "jupyterlab": "import jupyterlab.labapp",
    "onnxruntime": "import onnxruntime; assert onnxruntime.get_available_providers()",
}
LARGE = {"jupyterlab"}
"""`test_large_lock` makes it real in every run."""
SETS = {
    entry["name"]: entry
    for entry in json.loads(
        (Path(__file__).parents[2] / "benchmarks" / "requirement_sets.json").read_text()
    )["sets"]
    if "imports" in entry
}
"""Requirement sets that are really installed, with what is imported then."""
SMALL_SETS = ("own-requests-socks", "own-docopt")


def run(*words: str | Path) -> str:
    """Run a program and return its output; a failure shows all of it."""
    completed = run_program(*[str(word) for word in words], timeout=600)
    return completed.stdout


@pytest.mark.parametrize(
    "package",
    [pytest.param(name, marks=[pytest.mark.corpora] if name in LARGE else ()) for name in PROGRAMS],
)
def test_package(
    package: str,
    environment: Callable[[], Path],
    wheelfit: Callable[..., str],
    pip: Path,
    uv: Path,
) -> None:
    """It is installed with dependencies, imports, passes pip's and uv's check, and is removed."""
    python = environment()
    wheelfit("install", "--python", python, package)
    run(python, "-I", "-c", PROGRAMS[package])
    assert "No broken requirements found" in run(pip, "--python", python, "check")
    listed = {
        entry["name"].lower()
        for entry in json.loads(wheelfit("list", "--json", "--python", python))["packages"]
    }
    names = {
        entry["name"].lower().replace("_", "-").replace(".", "-")
        for entry in json.loads(run(pip, "--python", python, "list", "--format", "json"))
    }
    assert listed == names
    seen_by_uv = json.loads(run(uv, "pip", "list", "--python", python, "--format", "json"))
    assert {entry["name"] for entry in seen_by_uv} == listed
    run(uv, "pip", "check", "--python", python)

    again = json.loads(wheelfit("install", "--json", "--dry-run", "--python", python, package))
    assert again["install"] == []
    assert package in {entry["name"] for entry in again["keep"]}

    wheelfit("uninstall", "--python", python, *sorted(listed))
    assert json.loads(run(pip, "--python", python, "list", "--format", "json")) == []
    site = python.parent.parent / "lib"
    assert not [path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SMALL_SETS else [pytest.mark.corpora]) for n in SETS],
)
def test_set_of_packages(
    name: str, environment: Callable[[], Path], wheelfit: Callable[..., str], pip: Path
) -> None:
    """All are installed, import and pass pip's check, and no file is left after removal."""
    python = environment()
    place = python.parent.parent
    before = files_below(place)
    consent = ("--allow-source", "always")
    wheelfit("install", *consent, "--python", python, *SETS[name]["arguments"])
    for module in SETS[name]["imports"]:
        run(python, "-B", "-I", "-c", f"import {module}")
    assert "No broken requirements found" in run(pip, "--python", python, "check")
    listed = json.loads(wheelfit("list", "--json", "--python", python))["packages"]
    wheelfit("uninstall", "--python", python, *(entry["name"] for entry in listed))
    assert files_below(place) == before


def files_below(place: Path) -> set[str]:
    """Return the paths of all files in an environment, including bytecode."""
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if not path.is_dir()}


def test_versions_of_pip(
    environment: Callable[[], Path], wheelfit: Callable[..., str], pip: Path
) -> None:
    """For jupyterlab pip would install the same versions."""
    python = environment()
    ours = json.loads(wheelfit("install", "--dry-run", "--json", "--python", python, "jupyterlab"))
    report = run(
        pip, "--python", python, "install", "--dry-run", "--quiet", "--report", "-", "jupyterlab"
    )
    theirs = json.loads(report)["install"]
    assert {(entry["name"], entry["version"]) for entry in ours["install"]} == {
        (
            entry["metadata"]["name"].lower().replace("_", "-").replace(".", "-"),
            entry["metadata"]["version"],
        )
        for entry in theirs
    }
