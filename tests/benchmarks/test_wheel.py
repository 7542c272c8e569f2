"""The benchmark of making variant wheels: it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "wheel.py"


@pytest.mark.skipif(sys.platform != "linux", reason="it copies with GNU cp")
def test_quick_run(tmp_path: Path) -> None:
    """With a small wheel it measures every tool but variantlib, and prints a row."""
    command = [sys.executable, str(BENCHMARK), "--quick", "--on", str(tmp_path)]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    head, _, row = completed.stdout.splitlines()
    assert head.count("|") == row.count("|")
    assert row.startswith("| small, on disk | 0.")
    assert list(tmp_path.iterdir()) == []
