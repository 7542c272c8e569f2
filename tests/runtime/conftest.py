"""The example of a loader, installed; and what is left to those who ask for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from python_runs import printed_by
from runtime.example_builds import BACKEND, build_example, install_builds

RUNTIME = Path(__file__).parents[2] / "runtime"
_LONG = ("cuda_real", "cuda_long", "frozen_long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what takes minutes or hundreds of megabytes to those who name its marker."""
    asked = config.option.markexpr
    left = [
        item
        for item in items
        if any(item.get_closest_marker(name) and name not in asked for name in _LONG)
    ]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def example_wheels(
    environment_with: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a folder with the wheels of the example, which all workers share."""
    top = tmp_path_factory.getbasetemp()
    top = top.parent if "PYTEST_XDIST_WORKER" in os.environ else top
    with FileLock(top / "example.lock"):
        done = top / "example-is-built"
        if not done.exists():
            (top / "example").mkdir()
            build_example(environment_with(*BACKEND), top / "example")
            done.touch()
    return top / "example" / "wheels"


@pytest.fixture(scope="session")
def install_example(
    example_wheels: Path,
    environment_with: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Path]:
    """Return a function that installs it with some implementations, and returns the folder."""

    def install(*builds: str) -> Path:
        place = tmp_path_factory.mktemp("site")
        install_builds(environment_with(*BACKEND), example_wheels, place, *builds)
        return place

    return install


@pytest.fixture(scope="session")
def runtime_wheel(
    environment_with: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the wheel of `wheelfit-runtime`, built as it is published."""
    python = environment_with("build>=1.6", "hatchling>=1.29")
    folder = tmp_path_factory.mktemp("dist")
    printed_by("-m", "build", "--no-isolation", "--outdir", folder, RUNTIME, python=python)
    (path,) = folder.glob("*.whl")
    return path
