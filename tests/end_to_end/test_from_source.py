"""Source installations by wheelfit and by pip, with real backends: equal files and records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import run_program
from projects.writing import commit_all, write_archive

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("registry")]

SETUPTOOLS = """
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"
[project]
name = "compiled-demo"
version = "1.0"
[project.scripts]
compiled-demo = "compiled_demo:main"
[tool.setuptools]
packages = ["compiled_demo"]
script-files = ["tool.sh"]
ext-modules = [{ name = "compiled_demo.fast", sources = ["fast.c"] }]
[tool.setuptools.data-files]
"share/compiled-demo" = ["notes.txt"]
"""
FAST = """
#define Py_LIMITED_API 0x03090000
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", "", -1, methods};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""
HATCHLING = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "hatched-demo"
dynamic = ["version"]
[project.optional-dependencies]
more = ["six"]
[tool.hatch.version]
path = "src/hatched_demo/__init__.py"
"""
FLIT = """
[build-system]
requires = ["flit_core>=3.4"]
build-backend = "flit_core.buildapi"
[project]
name = "flit-demo"
version = "1.0"
description = "a demo"
"""
LEGACY = """
from setuptools import setup
setup(name="legacy-demo", version="1.0", py_modules=["legacy_demo"], install_requires=["six"])
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write a project and return its folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """Return a project with a module in C, data files and a script."""
    return write(
        tmp_path / "compiled",
        {
            "pyproject.toml": SETUPTOOLS,
            "fast.c": FAST,
            "compiled_demo/__init__.py": "def main():\n    from .fast import answer\n"
            "    print(answer())\n",
            "tool.sh": "#!/bin/sh\necho tool\n",
            "notes.txt": "notes\n",
        },
    )


@pytest.fixture
def hatched(tmp_path: Path) -> Path:
    """Return a project whose version only its backend knows."""
    return write(
        tmp_path / "hatched",
        {"pyproject.toml": HATCHLING, "src/hatched_demo/__init__.py": '__version__ = "1.2"\n'},
    )


@pytest.fixture
def flit(tmp_path: Path) -> Path:
    """Return an archive of a project in a subfolder of a repository."""
    module = '"""a demo"""\n'
    files = {"x-main/python/pyproject.toml": FLIT, "x-main/python/flit_demo.py": module}
    return write_archive(tmp_path / "x-main.tar.gz", files)


@pytest.fixture
def legacy(tmp_path: Path) -> Path:
    """Return a project from before PEP 517, in a repository."""
    files = {"setup.py": LEGACY, "legacy_demo.py": "x = 1\n"}
    commit_all(write(tmp_path / "legacy", files), tag="v1")
    return tmp_path / "legacy"


IGNORED = ("RECORD", "INSTALLER", "REQUESTED", "wheelfit.json", "direct_url.json")


def contents(python: Path) -> dict[str, bytes]:
    """Return the files of an environment other than those that each installer writes itself."""
    place = python.parent.parent
    found = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_dir() or path.name in IGNORED or "__pycache__" in name or path.is_symlink():
            continue
        if name == "pyvenv.cfg" or name.startswith("bin/") or path.suffix == ".so":
            # Of commands and compiled modules only that they are there.
            found[name] = b""
        else:
            found[name] = path.read_bytes()
    return found


def origins(python: Path) -> dict[str, object]:
    """Return the recorded origins of distributions (PEP 610)."""
    return {
        path.parent.name: json.loads(path.read_text())
        for path in python.parent.parent.rglob("direct_url.json")
    }


@pytest.mark.parametrize("case", ["compiled", "editable", "archive", "repository", "index"])
def test_like_pip(
    case: str,
    compiled: Path,
    hatched: Path,
    flit: Path,
    legacy: Path,
    environment: Callable[[], Path],
    wheelfit: Callable[..., str],
    pip: Path,
) -> None:
    """Both install the same files, and record the same origin."""
    words = {
        "compiled": [str(compiled)],
        "editable": ["-e", f"{hatched}[more]"],
        "archive": [f"flit-demo @ {flit.as_uri()}#subdirectory=python"],
        "repository": [f"legacy-demo @ git+{legacy.as_uri()}@v1"],
        "index": ["docopt==0.6.2"],
    }[case]
    ours, theirs = environment(), environment()
    consent = ["--allow-source", "docopt"] if case == "index" else []
    wheelfit("install", "--python", ours, *words, *consent)
    completed = run_program(pip, "--python", theirs, "install", "--no-compile", "--quiet", *words)
    assert contents(ours) == contents(theirs)
    assert origins(ours) == origins(theirs)
    if case == "compiled":
        for command, answer in (("compiled-demo", "42\n"), ("tool.sh", "tool\n")):
            completed = run_program(ours.parent / command)
            assert completed.stdout == answer
    told = json.loads(wheelfit("list", "--python", ours, "--json"))["packages"]
    assert [one["project"] for one in told if one["editable"]] == (
        [str(hatched)] if case == "editable" else []
    )
