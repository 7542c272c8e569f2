"""Other programs: their output, and waiting for what they do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run_program(
    *words: object, code: int | None = 0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, and return its output.

    :param code: the exit code that it must have; None: any.
    :param options: further arguments of `subprocess.run`.
    """
    completed = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, **options
    )
    output = completed.stdout + completed.stderr
    assert code is None or completed.returncode == code, f"{words}\n{output}"
    return completed


def until(holds: Callable[[], object]) -> None:
    """Wait until a condition holds, at most a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False
