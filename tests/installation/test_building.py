"""Wheels that are built from a project of the user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wheelfit.installation.builds import projects
from wheelfit.installation.builds.building import WheelBuilder
from wheelfit.installation.builds.cache import BuiltWheel
from wheelfit.installation.builds.consent import BuildPolicy
from wheelfit.installation.builds.products import Product
from wheelfit.installation.builds.projects import OpenProject, state_of
from wheelfit.sources.page import File, WheelOrigin
from wheelfit.sources.progress import Progress
from wheelfit.testing.repositories import FakeRepository
from wheelfit.testing.wheels import build_wheel


class Transfer(Progress):
    """A receiver that counts bytes."""

    count = 0

    def advance(self, count: int) -> None:
        """Count bytes."""
        self.count += count


def test_unpacking_is_no_transfer(tmp_path: Path) -> None:
    """The files of a wheel that was built here do not count as received bytes."""
    path = build_wheel(tmp_path / "dist", "a", "1")
    project = OpenProject(tmp_path, "a", tmp_path.as_uri())
    file = File(path.name, project.url, origin=WheelOrigin("a", is_built=True))
    unused: Any = None
    builder = WheelBuilder(
        FakeRepository(), unused, unused, BuildPolicy(), environ={}, scratch=unused
    )
    wheel = BuiltWheel(path, path.name)
    builder._register(Product(file, lambda: project, project=project, wheel=wheel))
    transfer = Transfer()
    assert builder.unpacked(file, tmp_path, transfer).names()
    assert transfer.count == 0


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("src/build/__init__.py", True),  # a package that has this name
        ("src/dist/__init__.py", True),
        ("build/lib/x.py", False),
        ("dist/x.whl", False),
        ("src/x/__pycache__/x.pyc", False),
        ("src/x.egg-info/PKG-INFO", False),
    ],
)
def test_state_of_products(name: str, counts: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A change of a build product is none of the project."""
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("1")
    before = state_of(tmp_path)
    path.write_text("22")
    assert before is not None
    assert (state_of(tmp_path) != before) is counts


def test_state_of_a_large_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with too many files is not listed to its end."""
    (tmp_path / "a").touch()
    listed = []

    def walk(*_: object, **__: object) -> Iterator[tuple[str, list[str], list[str]]]:
        for number in range(100):
            listed.append(number)
            yield str(tmp_path), [], ["a"]

    monkeypatch.setattr(projects, "_MAX_FILES", 3)
    assert state_of(tmp_path) is not None
    monkeypatch.setattr(os, "walk", walk)
    assert state_of(tmp_path) is None
    assert len(listed) == 4
