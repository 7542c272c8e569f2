"""The helper for nox installs into the environment of a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from python_runs import run_python

from wheelfit.testing.wheels import build_wheel

HELPER = Path(__file__).parents[2] / "examples/nox/wheelfit_nox.py"
NOXFILE = """
import nox
from wheelfit_nox import install_fitting

@nox.session(venv_backend="venv")
def tests(session):
    install_fitting(session, "spam", find_links=({folder!r},), no_index=True)
    session.run("python", "-c", "from importlib.metadata import version; print(version('spam'))")
"""


@pytest.mark.integration
def test_session(tmp_path: Path) -> None:
    """A session has what was installed, and its log the reason of the choice."""
    build_wheel(tmp_path / "wheels", "spam", "1.0")
    shutil.copy(HELPER, tmp_path)
    (tmp_path / "noxfile.py").write_text(NOXFILE.format(folder=str(tmp_path / "wheels")))
    completed = run_python("-m", "nox", "--no-color", cwd=tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "installed spam 1.0: the only wheel that fits" in completed.stdout + completed.stderr
    assert completed.stdout.splitlines()[-1] == "1.0"
