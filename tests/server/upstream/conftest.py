"""An upstream index on this machine, and mirrors of it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from server.upstream.mirroring import Mirroring

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel


@pytest.fixture(scope="session")
def built_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two projects; one wheel is large enough for many pieces."""
    folder = tmp_path_factory.mktemp("upstream-wheels")
    build_wheel(folder, "small", "1.0", requires_python=">=3.8")
    build_wheel(folder, "small", "2.0", requires=["large"])
    build_wheel(folder, "large", "1.0", files={"large/data": random.Random(7).randbytes(1 << 20)})
    return folder


@pytest.fixture
def wheels(built_wheels: Path, tmp_path: Path) -> Path:
    """Return a copy of that folder."""
    return Path(shutil.copytree(built_wheels, tmp_path / "wheels"))


@pytest.fixture
def upstream(wheels: Path) -> Iterator[RecordingIndex]:
    """Run an index of the wheels."""
    with RecordingIndex(wheels) as index:
        yield index


@pytest.fixture
def mirror(upstream: RecordingIndex, tmp_path: Path) -> Iterator[Callable[..., Mirroring]]:
    """Return a function that opens a mirror of the upstream; all are closed afterwards."""
    opened: list[Mirroring] = []

    def open_(url: str | None = None, folder: str = "mirror", **settings: Any) -> Mirroring:
        one = Mirroring(url or upstream.url, tmp_path / folder, **settings)
        opened.append(one)
        return one

    yield open_
    for one in opened:
        one.close()
