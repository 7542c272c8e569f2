"""Claims about the lock of an environment."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from wheelfit.errors import EnvironmentBusy
from wheelfit.installation.environment_folders import LOCK_FILE
from wheelfit.installation.locking import locked

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, time, pathlib
from wheelfit.installation.locking import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""

COUNT = """
import sys, time, pathlib
from wheelfit.installation.locking import locked
folder = pathlib.Path(sys.argv[1])
for _ in range(20):
    with locked(folder, lock_timeout=60) as held:
        assert held
        count = int((folder / "count").read_text())
        time.sleep(0.001)
        (folder / "count").write_text(str(count + 1))
"""


def hold(folder: Path, seconds: float) -> subprocess.Popen[str]:
    """Hold the lock in another process."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def finish(process: subprocess.Popen[str]) -> None:
    """End a process and close what it wrote."""
    process.kill()
    process.communicate()


def test_free(tmp_path: Path) -> None:
    """The lock is held inside the block, and nothing is left after it."""
    with locked(tmp_path) as held:
        assert held
        assert (tmp_path / LOCK_FILE).exists()
    assert list(tmp_path.iterdir()) == []


def test_busy(tmp_path: Path) -> None:
    """Another process is waited for, but not for ever."""
    process = hold(tmp_path, 60)
    try:
        with (
            pytest.raises(EnvironmentBusy, match="another process") as excinfo,
            locked(tmp_path, lock_timeout=0.2),
        ):
            pass
        assert excinfo.value.exit_code == 6
        assert excinfo.value.where == str(tmp_path / LOCK_FILE)
    finally:
        finish(process)


def test_waiting(tmp_path: Path) -> None:
    """Work goes on when the other process has finished."""
    process = hold(tmp_path, 0.5)
    start = time.monotonic()
    with locked(tmp_path, lock_timeout=30) as held:
        assert held
        assert time.monotonic() - start > 0.2
    finish(process)


def test_killed(tmp_path: Path) -> None:
    """A process that was killed holds nothing any more."""
    finish(hold(tmp_path, 60))
    assert (tmp_path / LOCK_FILE).exists()
    with locked(tmp_path, lock_timeout=5) as held:
        assert held


def test_one_at_a_time(tmp_path: Path) -> None:
    """Although the file is removed each time, two processes never hold the lock together."""
    (tmp_path / "count").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path)]) for _ in range(4)]
    assert [process.wait(120) for process in processes] == [0] * 4
    assert (tmp_path / "count").read_text() == "80"


def test_no_locks(tmp_path: Path) -> None:
    """Where no lock file can be made, work goes on without."""
    (tmp_path / LOCK_FILE).mkdir()
    with locked(tmp_path, lock_timeout=0.2) as held:
        assert not held
