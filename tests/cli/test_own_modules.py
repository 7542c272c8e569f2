"""Protection of wheelfit from modules of the environment that it runs in and changes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from error_codes import raises_code
from packaging.requirements import Requirement

from wheelfit.errors import NotRemovable
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.installation.environment_folders import WORKPLACE
from wheelfit.operations.context import Context
from wheelfit.operations.install import InstallRequest, install
from wheelfit.operations.self_change import affects_wheelfit, preload_modules
from wheelfit.operations.uninstall import UninstallRequest, uninstall
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder on the import path; modules from it are unloaded afterwards."""
    folder = tmp_path / "library"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("brought", "whole")]:
        del sys.modules[name]


@pytest.fixture
def environment(library: Path) -> Environment:
    """Return the folder as an environment."""
    return open_environment(None, environ=os.environ, target=library)


def add(library: Path, name: str) -> None:
    """Add an installed package."""
    info = library / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")


def test_new_modules_are_not_imported(library: Path, environment: Environment) -> None:
    """Modules and packages of a newly installed wheel are refused; all others are found."""
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


def test_refused_changes(library: Path, tmp_path: Path) -> None:
    """After a change that was refused, a program that uses wheelfit can import all modules."""
    hooks = list(sys.meta_path)
    context = Context({**os.environ, "WHEELFIT_CACHE_DIR": str(tmp_path / "cache")})
    add(library, "wheelfit")  # without RECORD
    with pytest.raises(NotRemovable):
        uninstall(UninstallRequest(names=("wheelfit",), target=str(library)), context)
    assert sys.meta_path == hooks
    (library / "rich").mkdir()
    (library / "rich/odd.py").write_text("mine")
    wheel = build_wheel(tmp_path, "odd", "1.0", files={"rich/odd.py": ""})
    with raises_code("file-conflict"):
        install(InstallRequest(requirements=(str(wheel),), target=str(library)), context)
    assert sys.meta_path == hooks


def test_interrupted_change(library: Path, environment: Environment) -> None:
    """Modules of a change that could not be undone are refused further on."""
    (library / WORKPLACE).mkdir()
    (library / "brought.py").touch()
    allow_imports = preload_modules(environment)
    allow_imports()
    with pytest.raises(ImportError, match="brought lies in an environment"):
        importlib.import_module("brought")
    (library / WORKPLACE).rmdir()
    allow_imports()
    importlib.import_module("brought")


def test_namespace_package(library: Path, environment: Environment) -> None:
    """A folder without ``__init__.py`` is refused too."""
    (library / "whole").mkdir()
    (library / "whole/part.py").write_text("")
    unsettle = preload_modules(environment)
    try:
        with pytest.raises(ImportError, match="whole lies in an environment"):
            importlib.import_module("whole.part")
    finally:
        unsettle()


def test_preloaded_modules(library: Path) -> None:
    """Modules that an installation imports late are preloaded."""
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
        "packaging.requirements", "wheelfit.installation.broken_requirements",
        "wheelfit.core.tag_phrases", "wheelfit.installation.removal", "wheelfit.cli.output",
        "wheelfit.wheels.unpacked",
    }  # fmt: skip
    assert needed <= set(completed.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        Requirement(dependency).name
        for dependency in tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    ],
)
def test_dependencies_of_wheelfit(name: str, library: Path, environment: Environment) -> None:
    """A change to any dependency of wheelfit is noticed."""
    assert not affects_wheelfit(environment, (), environment.installed())
    add(library, "odd")
    assert not affects_wheelfit(environment, (), environment.installed())
    add(library, name)
    assert affects_wheelfit(environment, (), environment.installed())


def test_environment_off_the_import_path(tmp_path: Path) -> None:
    """An environment off the import path does not affect wheelfit."""
    (tmp_path / "elsewhere").mkdir()
    add(tmp_path / "elsewhere", "packaging")
    elsewhere = open_environment(None, environ=os.environ, target=tmp_path / "elsewhere")
    assert not affects_wheelfit(elsewhere, (), elsewhere.installed())
