"""An index with variants, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server.proxy.behind import CUDA, Behind

from wheelfit.testing.index import RecordingIndex


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of the index."""
    folder = tmp_path / "index"
    folder.mkdir()
    return folder


@pytest.fixture
def index(folder: Path) -> Iterator[RecordingIndex]:
    """Serve the folder."""
    with RecordingIndex(folder) as index:
        yield index


@pytest.fixture
def behind(index: RecordingIndex) -> Iterator[Behind]:
    """Give a proxy for a machine with CUDA 12.9, that answers for every project."""
    with Behind(index.url, supported={"nvidia": CUDA}, mode="full") as behind:
        yield behind
