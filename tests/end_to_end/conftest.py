"""Fixtures of the end-to-end tests: environments, and the programs as users run them."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from programs import run_program


@pytest.fixture
def environment(empty_venv: Path, tmp_path: Path) -> Callable[[], Path]:
    """Return a function that makes an empty virtual environment and returns its interpreter."""
    numbers = itertools.count()

    def make() -> Path:
        place = tmp_path / f"environment-{next(numbers)}"
        shutil.copytree(empty_venv, place, symlinks=True)
        settings = place / "pyvenv.cfg"
        settings.write_text(settings.read_text().replace(str(empty_venv), str(place)))
        return place / "bin" / "python"

    return make


@pytest.fixture
def wheelfit(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return a function that runs wheelfit in its own process and returns its standard output."""
    cache = tmp_path_factory.getbasetemp() / "wheelfit-cache"

    def run(*words: str | Path, code: int = 0, environ: dict[str, str] | None = None) -> str:
        variables = {
            key: value for key, value in os.environ.items() if not key.startswith("VIRTUAL_ENV")
        }
        completed = run_program(
            sys.executable, "-m", "wheelfit", *map(str, words), code=code, timeout=600,
            env={**variables, "WHEELFIT_CACHE_DIR": str(cache), **(environ or {})},
        )  # fmt: skip
        return completed.stdout

    return run
