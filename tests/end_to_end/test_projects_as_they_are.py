"""The guide for projects as they are is followed: their files, their commands, what these print."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
from end_to_end.guides import follow, sections

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
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

GUIDE = sections("build-projects-as-they-are.md")


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


@pytest.mark.parametrize(
    "section",
    [
        "With a `setup.py` alone",
        "Several projects in one repository",
        "Several extension modules",
    ],
)
def test_guide(section: str, folder: Path, cache: Path) -> None:
    """B-17: ordinary projects become variants with the commands of the page and no others."""
    if "repository" in section and shutil.which("git") is None:
        pytest.skip("needs git")
    follow(GUIDE[section], folder, cache)
