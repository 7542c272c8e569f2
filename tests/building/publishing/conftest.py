"""What tests of publishing share."""

from __future__ import annotations

from pathlib import Path

import pytest
from server.uploading import DOCUMENT

from wheelfit.building.publishing.release_files import OutgoingFile, collect_files
from wheelfit.testing.wheels import build_wheel


@pytest.fixture
def files(tmp_path: Path) -> tuple[OutgoingFile, ...]:
    """Give a release with two variants."""
    for label in (None, "mkl", "open"):
        build_wheel(tmp_path / "dist", "fast", "1.0", label=label,
                    document=DOCUMENT if label else None)  # fmt: skip
    return collect_files([tmp_path / "dist"]).files
