"""Locks of sources with real backends, installed by wheelfit and by other tools."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner
from projects.writing import commit_all

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = [
    pytest.mark.integration,
    pytest.mark.network,
    pytest.mark.usefixtures("bare_environment"),
]

SETUPTOOLS = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "listed-demo"
version = "1.0"
dependencies = ["small"]
"""
HATCHLING = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "folder-demo"
dynamic = ["version"]
dependencies = ["small"]
[tool.hatch.version]
path = "folder_demo/__init__.py"
"""
FLIT = """
[build-system]
requires = ["flit_core>=3.11,<4"]
build-backend = "flit_core.buildapi"
[project]
name = "git-demo"
version = "3.0"
description = "a demo"
"""
NAMES = ("folder-demo", "git-demo", "listed-demo", "small")


def write(folder: Path, text: str, module: str) -> Path:
    """Write a project and return its folder."""
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text('"""A demo."""\n__version__ = "2.0"\n')
    (folder / "pyproject.toml").write_text(text)
    return folder


def found(target: Path) -> tuple[str, ...]:
    """Return the names of the packages in a folder."""
    names = (path.stem.rpartition("-")[0] for path in target.glob("*.dist-info"))
    return tuple(sorted(name.replace("_", "-") for name in names))


def with_pip(pip: Path, lock: Path, folder: Path) -> tuple[int, str]:
    """Install a lock with pip; return its status and output."""
    words: list[str | Path] = [pip, "install", "-r", lock, "--target", folder / "target"]
    completed = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return completed.returncode, completed.stdout + completed.stderr


@pytest.fixture
def lock(wheelfit: Runner, tmp_path: Path) -> Iterator[Path]:
    """Lock a source distribution of an index, a folder and a repository."""
    wheels = tmp_path / "wheels"
    build_wheel(wheels, "small", "1")
    listed = write(tmp_path / "listed", SETUPTOOLS, "listed_demo")
    with tarfile.open(wheels / "listed_demo-1.0.tar.gz", "w:gz") as archive:
        archive.add(listed, "listed_demo-1.0")
    folder = write(tmp_path / "folder", HATCHLING, "folder_demo")
    repository = write(tmp_path / "repository", FLIT, "git_demo")
    commit_all(repository)
    words: list[str | Path] = ["listed-demo", folder, f"git+{repository.as_uri()}@main"]
    with RecordingIndex(wheels) as index:
        path = tmp_path / "pylock.toml"
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        place: list[str | Path] = [
            "--extra-index-url",
            index.url,
            "-o",
            path,
            "--python-version",
            python,
        ]
        wheelfit("lock", *place, "--platform", "linux-x86_64", *words)
        yield path


def test_wheelfit(wheelfit: Runner, lock: Path, tmp_path: Path) -> None:
    """Each is built by its own backend, from the locked source."""
    allowed = [word for name in NAMES for word in ("--allow-source", name)]
    wheelfit("sync", "--target", tmp_path / "target", lock, *allowed)
    assert found(tmp_path / "target") == NAMES


def test_pip(lock: Path, pip: Path, tmp_path: Path) -> None:
    """``pip install -r`` builds sources with a hash, and refuses the others beside them."""
    code, said = with_pip(pip, lock, tmp_path)
    assert code == 1
    assert "because they point to directories" in said
    entries = lock.read_text().split("[[packages]]")
    unhashed = ("packages.directory]", "packages.vcs]")
    lock.write_text(
        "[[packages]]".join(entry for entry in entries if not any(key in entry for key in unhashed))
    )
    code, said = with_pip(pip, lock, tmp_path)
    assert code == 0, said
    assert found(tmp_path / "target") == NAMES[2:]


def test_uv(lock: Path, uv: Path, tmp_path: Path) -> None:
    """``uv pip sync`` builds the same."""
    target = tmp_path / "target"
    words: list[str | Path] = [
        uv,
        "pip",
        "sync",
        "--python",
        sys.executable,
        lock,
        "--target",
        target,
    ]
    completed = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert found(target) == NAMES
