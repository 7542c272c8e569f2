"""A tree of a hundred real packages: locked, read by other tools, installed, and kept."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.pylock import Pylock, is_valid_pylock_path
from packaging.utils import canonicalize_name
from programs import run_program

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("registry")]

TREE = ("jupyterlab", "scikit-learn", "pandas")
PROGRAM = """
import jupyterlab.labapp, pandas, sklearn.linear_model
assert pandas.DataFrame({"a": [1, 2]})["a"].sum() == 3
model = sklearn.linear_model.LinearRegression().fit([[0], [1]], [0, 2])
assert round(float(model.coef_[0])) == 2
"""


def run(*words: str | Path) -> str:
    """Run a program and return its output; a failure shows all of it."""
    completed = run_program(*[str(word) for word in words], timeout=600)
    return completed.stdout


def installed(uv: Path, python: Path) -> dict[str, str]:
    """Return the names and versions that uv lists."""
    listed = json.loads(run(uv, "pip", "list", "--python", python, "--format", "json"))
    return {canonicalize_name(entry["name"]): entry["version"] for entry in listed}


def test_lock_and_sync(
    environment: Callable[[], Path],
    wheelfit: Callable[..., str],
    pip: Path,
    uv: Path,
    tmp_path: Path,
) -> None:
    """The standard's reader and uv accept the lock; locking again changes nothing."""
    path, ours, theirs = tmp_path / "pylock.toml", environment(), environment()
    wheelfit("lock", "--python", ours, "-o", path, *TREE)
    text = path.read_bytes()

    lock = Pylock.from_dict(tomllib.loads(text.decode()))
    lock.validate()
    assert is_valid_pylock_path(path)
    assert len(lock.packages) >= 100
    wheels = [wheel for package in lock.packages for wheel in package.wheels or ()]
    assert all(wheel.hashes["sha256"] for wheel in wheels)

    wheelfit("lock", "--python", ours, "-o", path, *TREE)
    assert path.read_bytes() == text
    wheelfit("lock", "--check", "--python", ours, "-o", path, *TREE)

    wheelfit("sync", "--python", ours, path)
    run(ours, "-I", "-c", PROGRAM)
    assert "No broken requirements found" in run(pip, "--python", ours, "check")
    again = json.loads(wheelfit("sync", "--json", "--dry-run", "--python", ours, path))
    assert (again["install"], again["remove"]) == ([], [])

    run(uv, "pip", "sync", "--python", theirs, path)
    assert installed(uv, ours) == installed(uv, theirs)


def test_versions_of_uv(
    environment: Callable[[], Path], wheelfit: Callable[..., str], uv: Path, tmp_path: Path
) -> None:
    """The locked versions for this machine are those that uv would install."""
    path, python = tmp_path / "pylock.toml", environment()
    wheelfit("lock", "--python", python, "-o", path, *TREE)
    planned = json.loads(wheelfit("sync", "--json", "--dry-run", "--python", python, path))
    locked = {f"{entry['name']}=={entry['version']}" for entry in planned["install"]}
    (tmp_path / "tree.in").write_text("\n".join(TREE))
    words = ["pip", "compile", "--quiet", "--no-annotate", "--no-header", "--only-binary", ":all:"]
    words += ["--python", str(python)]
    compiled = run(uv, *words, tmp_path / "tree.in")
    assert locked == set(compiled.split())
