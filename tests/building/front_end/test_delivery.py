"""Wheels get their names when all of them are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.building.front_end.delivery import deliver
from wheelfit_runtime.errors import FileProblem


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Give files to deliver."""
    paths = [tmp_path / name for name in ("a.whl", "b.whl")]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_all(files: list[Path], tmp_path: Path) -> None:
    """They lie in the folder, which is made; what was called so before gives way."""
    folder = tmp_path / "new" / "dist"
    for text in ("old", "a.whl"):
        assert deliver(files, folder) == (folder / "a.whl", folder / "b.whl")
        assert {path.name for path in folder.iterdir()} == {"a.whl", "b.whl"}
        assert (folder / "a.whl").read_text() == "a.whl"
        (folder / "a.whl").write_text(text)


def test_nothing(files: list[Path], tmp_path: Path) -> None:
    """Where one of them cannot be had, none of the others gets its name."""
    folder = tmp_path / "dist"
    with pytest.raises(FileProblem, match="cannot be written: No such file"):
        deliver([*files, tmp_path / "gone.whl"], folder)
    assert not list(folder.iterdir())
