"""Locks of other tools synced by wheelfit, and wheelfit's locks synced by uv."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.locking import write_lock_of
from cli.running import Runner
from programs import run_program

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("own_settings")]
"""Only to install the other tools; what they lock lies on this machine."""

LEVELS = release_document(
    {"v1": {"x86_64": {"level": ["v1"]}}},
    providers={"x86_64": {"requires": ["x86-64-variant-provider<1"]}},
)
PROJECT = """
[project]
name = "app"
version = "1.0"
requires-python = ">=3.11"
dependencies = ["fast", "odd; sys_platform == 'win32'"]
[project.optional-dependencies]
more = ["extra-one"]
[dependency-groups]
dev = ["grouped"]
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
"""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a project with a build for every x86-64 level, and plain ones."""
    folder = tmp_path / "wheels"
    build_wheel(folder, "fast", "1.0", requires=["small"])
    build_release(folder, "fast", "1.0", LEVELS, ["v1"], requires=["small"])
    for name in ("small", "odd", "extra-one", "grouped"):
        build_wheel(folder, name, "1.0")
    with RecordingIndex(folder) as served:
        yield served


@pytest.fixture
def tool(tmp_path: Path) -> Callable[..., None]:
    """Return a function that runs a tool without the user's settings."""

    def call(*words: str | Path) -> None:
        names = ("PATH", "SYSTEMROOT")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        settings = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
        run_program(*words, env={**kept, **settings}, cwd=tmp_path)

    return call


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Make an empty environment."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder


def sync(run: Runner, index: RecordingIndex, environment: Path, *words: str | Path) -> None:
    """Sync, and check that only files were requested."""
    index.clear_requests()
    run("sync", *words, "--python", environment, "--no-cache-dir", "--for", "cpu-x86_64-v1")
    assert all(request.path.startswith("/files/") for request in index.requests)
    result = run("sync", *words, "--python", environment, "--for", "cpu-x86_64-v1")
    assert result.out.startswith("nothing to do")


def test_uv_project(
    uv: Path,
    tool: Callable[..., None],
    index: RecordingIndex,
    run: Runner,
    environment: Path,
    tmp_path: Path,
) -> None:
    """An exported lock is synced with extras and groups; the project itself if permitted."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    lock = tmp_path / "pylock.toml"
    words = ["export", "--no-config", "--no-cache", "--python", sys.executable, "-q"]
    words += ["--default-index", index.url, "--format", "pylock.toml", "--all-extras"]
    tool(uv, *words, "--all-groups", "-o", lock)
    result = run("sync", lock, "--python", environment, code=3)
    assert "[source-build-not-allowed]" in result.err
    assert "--allow-source app" in result.err
    assert "`uv export --no-emit-project`" in result.err
    tool(uv, *words, "--no-emit-project", "-o", lock)
    sync(run, index, environment, lock)
    # uv writes what was asked for on export as needed in any case, markers for platforms aside.
    assert set(run.labels("--python", environment)) == {"fast", "small", "extra-one", "grouped"}


@pytest.mark.parametrize("by", ["uv", "pip"])
def test_requirements(
    by: str,
    request: pytest.FixtureRequest,
    tool: Callable[..., None],
    index: RecordingIndex,
    run: Runner,
    environment: Path,
    tmp_path: Path,
) -> None:
    """Locks of `uv pip compile` and `pip lock` are synced without variants."""
    program: Path = request.getfixturevalue(by)
    lock = tmp_path / "pylock.toml"
    (tmp_path / "in.txt").write_text("fast")
    if by == "uv":
        words = ["pip", "compile", "--no-config", "--no-cache", "--python", sys.executable, "-q"]
        words += [
            "--default-index",
            index.url,
            "--format",
            "pylock.toml",
            "in.txt",
            "-o",
            str(lock),
        ]
    else:
        words = ["lock", "--quiet", "-i", index.url, "-r", "in.txt", "-o", str(lock)]
    tool(program, *words)
    sync(run, index, environment, lock)
    assert run.labels("--python", environment) == {"fast": None, "small": None}


def test_uv_first_then_wheelfit(
    uv: Path,
    tool: Callable[..., None],
    index: RecordingIndex,
    run: Runner,
    environment: Path,
    tmp_path: Path,
) -> None:
    """Uv installs the plain wheel of a lock; then wheelfit replaces it with the best build."""
    lock = write_lock_of(
        index,
        ["fast==1.0", "small==1.0"],
        tmp_path / "pylock.toml",
        needs={"fast": {"": ["small"], "v1": ["small"]}, "small": {"": []}},
    )
    tool(uv, "pip", "sync", "--no-config", "--no-cache", "--python", environment, lock)
    assert run.labels("--python", environment) == {"fast": None, "small": None}
    sync(run, index, environment, lock)
    assert run.labels("--python", environment) == {"fast": "v1", "small": None}
