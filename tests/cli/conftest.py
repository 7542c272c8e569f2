"""What tests of the command line need."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.cli.output import Output


@pytest.fixture(autouse=True)
def own_settings(bare_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing come in from whoever runs the tests, and nothing of the tests get out."""
    del bare_environment
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # a checkout may have a .venv


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return what runs a command."""
    return Runner(capsys)


@pytest.fixture
def plain() -> Output:
    """Return an output that says everything, without colour."""
    return Output(verbosity=1)
