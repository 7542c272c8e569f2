"""The guard against modules of an environment that wheelfit itself runs from and changes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from wheelfit.installation.environment import Environment, open_environment
from wheelfit.operations.self_change import affects_wheelfit, preload_modules

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder that modules are imported from; what comes from it is forgotten."""
    folder = tmp_path / "library"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("brought", "whole")]:
        del sys.modules[name]


@pytest.fixture
def environment(library: Path) -> Environment:
    """Return it as an environment."""
    return open_environment(None, environ=os.environ, target=library)


def add(library: Path, name: str) -> None:
    """Let a package be installed."""
    info = library / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


def test_nothing_of_it_is_imported(library: Path, environment: Environment) -> None:
    """Modules and packages that a wheel has just brought are refused; all others are found."""
    (library / "brought.py").write_text("raise SystemExit('it ran')\n")
    (library / "whole").mkdir()
    (library / "whole/__init__.py").write_text("raise SystemExit('it ran')\n")
    unsettle = preload_modules(environment)
    try:
        for name in ("brought", "whole"):
            with pytest.raises(ImportError, match=f"{name} lies in an environment"):
                importlib.import_module(name)
        sys.modules.pop("this_is_nowhere", None)
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("this_is_nowhere")
        sys.modules.pop("colorsys", None)
        importlib.import_module("colorsys")  # of the standard library
    finally:
        unsettle()
    with pytest.raises(SystemExit, match="it ran"):
        importlib.import_module("brought")


def test_a_namespace(library: Path, environment: Environment) -> None:
    """A folder without ``__init__.py`` is refused too."""
    (library / "whole").mkdir()
    (library / "whole/part.py").write_text("")
    unsettle = preload_modules(environment)
    try:
        with pytest.raises(ImportError, match="whole lies in an environment"):
            importlib.import_module("whole.part")
    finally:
        unsettle()


def test_what_may_be_needed_is_there(library: Path) -> None:
    """What is imported late in an installation has been imported beforehand."""
    program = f"""
import os, sys
from pathlib import Path
from wheelfit.operations.self_change import preload_modules
from wheelfit.installation.environment import open_environment
preload_modules(open_environment(None, environ=os.environ, target=Path({str(library)!r})))
print(*sys.modules)
"""
    command = [sys.executable, "-c", program]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    needed = {
        "packaging.requirements", "wheelfit.installation.breakage", "wheelfit.core.tag_phrases",
        "wheelfit.installation.removal", "wheelfit.cli.output", "wheelfit.wheels.unpacked",
    }  # fmt: skip
    assert needed <= set(completed.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        Requirement(dependency).name
        for dependency in tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    ],
)
def test_every_dependency_counts(name: str, library: Path, environment: Environment) -> None:
    """Whatever wheelfit depends on cannot be exchanged unnoticed."""
    assert not affects_wheelfit(environment, (), environment.installed())
    add(library, "odd")
    assert not affects_wheelfit(environment, (), environment.installed())
    add(library, name)
    assert affects_wheelfit(environment, (), environment.installed())


def test_another_environment(tmp_path: Path) -> None:
    """Where nothing is imported from, anything can be exchanged."""
    (tmp_path / "elsewhere").mkdir()
    add(tmp_path / "elsewhere", "packaging")
    elsewhere = open_environment(None, environ=os.environ, target=tmp_path / "elsewhere")
    assert not affects_wheelfit(elsewhere, (), elsewhere.installed())
