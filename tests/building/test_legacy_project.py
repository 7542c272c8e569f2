"""The ``[build-system]`` of projects that have none."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from wheelfit.building.legacy_project import BACKEND, build_system_of

SCRIPT = """\
import os, numpy as np
import setuptools.command.build_ext
from distutils.core import Extension
from version_of import V
import own.parts
with open("README") as file:
    import pybind11
try:
    from Cython.Build import cythonize
except ImportError:
    cythonize = None
try:
    import cffi
except OSError:
    pass
try:
    import torch
except:
    pass
def later():
    import scipy
open("executed", "w").close()
"""


def test_what_a_script_imports(tmp_path: Path) -> None:
    """PEP 517, PEP 518: what must be there is needed; what may be, is ours or is late is not."""
    (tmp_path / "setup.py").write_text(SCRIPT)
    (tmp_path / "version_of.py").touch()
    (tmp_path / "own").mkdir()
    text, needed = build_system_of(tmp_path) or ("", ())
    assert needed == ("numpy", "pybind11", "cffi")
    assert tomllib.loads(text)["build-system"] == {
        "requires": ["setuptools", *needed],
        "build-backend": BACKEND,
    }
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("files", "requires"),
    [
        ({"setup.cfg": "[metadata]\nname = old\n"}, ["setuptools"]),
        ({"setup.py": "from skbuild import setup\n"}, ["setuptools", "scikit-build"]),
        ({"setup.py": "import pkg_resources\n"}, ["setuptools<82"]),
        ({"setup.py": "print 'Python 2'\n"}, ["setuptools"]),
        ({"setup.py": "\0"}, ["setuptools"]),
    ],
)
def test_what_it_needs(tmp_path: Path, files: dict[str, str], requires: list[str]) -> None:
    """Modules that are not called like their packages are known; a script that is none is not."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    text, _ = build_system_of(tmp_path) or ("", ())
    assert tomllib.loads(text)["build-system"]["requires"] == requires


def test_no_project(tmp_path: Path) -> None:
    """A folder without either file is not a project."""
    assert build_system_of(tmp_path) is None
