"""The project of a folder, where folders above are not for everybody."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from wheelfit.operations.projects import check_folder_pins, nearest_project
from wheelfit.operations.requests import SourceOptions

NOBODY = 65534


@pytest.mark.skipif(sys.platform == "win32", reason="folders are closed otherwise there")
def test_a_closed_folder_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder above that may not be looked into holds no project, and stops nobody."""
    shut = tmp_path / "shut"
    (shut / "in").mkdir(parents=True)
    monkeypatch.chdir(shut / "in")
    shut.chmod(0)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            if os.geteuid() == 0:  # to whom nothing is closed
                os.setuid(NOBODY)
            with pytest.raises(PermissionError):
                (shut / "pyproject.toml").is_file()
            check_folder_pins(["six"], SourceOptions())
        except BaseException:  # noqa: BLE001 - the code tells
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    shut.chmod(0o700)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_nearest_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a folder above is found from below it."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    assert nearest_project(None) == tmp_path / "pyproject.toml"
