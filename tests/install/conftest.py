"""Real virtual environments, made once a session and copied for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wheelfit.install.environment import Environment, open_environment

MakeVenv = Callable[[], Path]


@pytest.fixture(scope="session")
def venv_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one virtual environment without pip."""
    folder = tmp_path_factory.mktemp("template") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.fixture
def make_venv(venv_template: Path, tmp_path: Path) -> MakeVenv:
    """Return a function that makes fresh virtual environments."""
    count = iter(range(100))

    def make() -> Path:
        # A copy works as well as the original: its interpreter is a link, and the place of
        # ``pyvenv.cfg`` decides about the prefix.
        folder = tmp_path / f"venv{next(count)}"
        shutil.copytree(venv_template, folder, symlinks=True)
        return folder

    return make


@pytest.fixture
def venv(make_venv: MakeVenv) -> Path:
    """Return the folder of a fresh virtual environment."""
    return make_venv()


@pytest.fixture
def environment(venv: Path) -> Environment:
    """Return a fresh virtual environment as the installer sees it."""
    return open_environment(str(venv), environ=os.environ)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for wheels."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def pip() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the pip of another interpreter on an environment."""
    for python in _pythons():
        done = subprocess.run(
            [python, "-m", "pip", "--version"], capture_output=True, check=False, text=True
        )
        if done.returncode == 0:
            break
    else:
        pytest.skip("no interpreter with pip was found")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "pip", *map(str, arguments)],
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull},
        )

    return run


def _pythons() -> list[str]:
    candidates = [sys.executable, sys._base_executable, shutil.which("python3")]  # type: ignore[attr-defined]
    return [candidate for candidate in candidates if candidate]
