"""Temporary folders, and their removal after a killed command."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from wheelfit.operations.temporary_folders import clear_abandoned, scratch_folder
from wheelfit_runtime.errors import FileProblem

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")

OTHER = """
import sys
from wheelfit.operations.temporary_folders import scratch_folder
with scratch_folder() as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder of the test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_temporary_folder(temporary: Path) -> None:
    """The folder is empty at first, and deleted with its contents."""
    with scratch_folder() as folder:
        assert folder.parent == temporary
        assert not list(folder.iterdir())
        (folder / "file").touch()
    assert not list(temporary.iterdir())


def test_folder_of_a_killed_command(temporary: Path) -> None:
    """The folder of a running process is kept; the next command removes it afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    other = Path(process.stdout.readline().strip())
    with scratch_folder() as folder:
        assert (other / "file").exists()
        process.kill()
        process.communicate()
        assert (other / "file").exists()
        clear_abandoned()
        assert list(temporary.iterdir()) == [folder]


def test_no_temporary_folder(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error names the missing temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "absent"))
    with pytest.raises(FileProblem, match="no temporary folder"), scratch_folder():
        pass


def test_other_files_are_kept(temporary: Path) -> None:
    """Links, files and folders with similar names are kept."""
    (temporary / "wheelfit-mine").mkdir()
    (temporary / "wheelfit-change-notours").mkdir()
    (temporary / "wheelfit-change-aaaaaaaa").touch()
    (temporary / "kept").mkdir()
    (temporary / "wheelfit-change-bbbbbbbb").symlink_to("kept")
    names = sorted(temporary.iterdir())
    clear_abandoned()
    assert sorted(temporary.iterdir()) == names
