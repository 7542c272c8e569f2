"""Fixtures of the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_settings(bare_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate the test from the user's settings, and use a temporary cache."""
    del bare_environment
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # a checkout may have a .venv
