"""P-76: captured machines are replayed; to add one, add a folder to ``tests/machines``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wheelfit_runtime.platforms.recording import as_expected, open_recorded

MACHINES = Path(__file__).parents[1] / "machines"


@pytest.mark.parametrize("folder", sorted(MACHINES.iterdir()), ids=lambda folder: folder.name)
def test_a_captured_machine_is_described_as_expected(folder: Path) -> None:
    """P-70, P-75, P-76: the same files and environment always give the same answer."""
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    assert as_expected(open_recorded(folder)) == expected
