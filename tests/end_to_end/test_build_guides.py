"""The guides to building are followed: their files, their commands, and what these print."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from end_to_end.guides import Section, follow, sections

pytestmark = [
    pytest.mark.network,
    pytest.mark.usefixtures("registry"),
    pytest.mark.skipif(
        not (sys.platform == "linux" and os.uname().machine == "x86_64"),
        reason="is for Linux on x86-64",
    ),
    pytest.mark.skipif(
        not Path(sysconfig.get_path("include"), "Python.h").exists(),
        reason="needs the headers of Python",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for a project."""
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache that all tests share."""
    return tmp_path_factory.getbasetemp() / "wheelfit-cache"


def needs(*programs: str) -> None:
    """Skip a test where a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


GPUS = sections("build-for-gpus.md")


@pytest.mark.parametrize(
    "backend", ["setuptools", pytest.param("CMake", marks=pytest.mark.backends_long)]
)
def test_cuda(backend: str, folder: Path, cache: Path, wheelfit: Callable[..., str]) -> None:
    """B-60: NVIDIA's compiler makes of each label the code that it claims, and nothing else."""
    needs("g++")
    shared = GPUS["With setuptools"].files
    section = GPUS[f"With {backend}"]
    files = {name: shared[name] for name in ("kernel.cu", "src/saxpy/__init__.py")}
    follow(Section({**files, **section.files}, section.commands), folder, cache)
    code = {}
    for path in sorted((folder / "dist").glob("*-linux_x86_64-*.whl")):
        said = json.loads(wheelfit("wheel", "inspect", path, "--json"))
        (binary,) = said["wheels"][0]["binaries"]
        label = path.stem.rpartition("-")[2]
        code[label] = {f"{one['kind']} {one['architecture']}" for one in binary["code"]}
    assert code == {
        "ampere": {"machine code 80", "machine code 86"},
        "hopper": {"machine code 90", "ptx 90"},
        "blackwell": {"machine code 120"},
    }
