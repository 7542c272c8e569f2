"""What tests of building share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Make a folder for results."""
    folder = tmp_path / "output folder"
    folder.mkdir()
    return folder
