"""Orders are carried out in places that somebody gives."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from packaging.markers import default_environment
from projects.writing import write_project

from wheelfit.building.front_end.build_orders import BuildOrder
from wheelfit.building.front_end.building import ProjectBuilder
from wheelfit.building.front_end.recipes import Recipe
from wheelfit.building.front_end.variants import PLAIN
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration


class Here:
    """Be the place, and make it: this interpreter, with what it has."""

    python = Path(sys.executable)
    environ: Mapping[str, str] = {}
    marker_environment: Mapping[str, str] = {
        name: str(value) for name, value in default_environment().items()
    }

    def __init__(self) -> None:
        self.added: list[str] = []

    def make(self, folder: Path) -> Here:
        """Return itself."""
        assert not list(folder.iterdir())
        return self

    def add(self, requirements: Iterable[str], required_by: str) -> None:
        """Note what would be installed."""
        assert required_by == "demo"
        self.added += requirements


def test_a_place_is_filled(tmp_path: Path) -> None:
    """B-12: what the project asks for comes first, then what its backend wants besides."""
    project = write_project(tmp_path / "p", "demo", requires=["one>=1"], needs=["two"])
    here = Here()
    told: list[str] = []
    order = BuildOrder(project, (PLAIN,), Recipe({"a": "b"}))
    (wheel,) = ProjectBuilder(here.make, {}, told.append).wheels(order, tmp_path)
    assert here.added == ["one>=1", "two"]
    assert (wheel.label, wheel.backend) == (None, "own_backend")
    assert wheel.path.is_relative_to(tmp_path)
    assert wheel.path.name == "demo-1.0-py3-none-any.whl"
    assert told[0] == "preparing to build demo"


def test_no_room(tmp_path: Path) -> None:
    """What the system refuses is an error with a remedy, for wheels and source distributions."""
    project = write_project(tmp_path / "p", "demo")
    gone = tmp_path / "gone"
    with pytest.raises(FileProblem, match="the build cannot continue") as raised:
        ProjectBuilder(Here().make, {}).wheels(BuildOrder(project, (PLAIN,), Recipe()), gone)
    assert str(raised.value.where).startswith(str(gone))
    with pytest.raises(FileProblem, match="the build cannot continue"):
        ProjectBuilder(Here().make, {}).sdist(project, Recipe(), gone)


@pytest.mark.parametrize("content", [b"no section\n", b"[build]\nx = \xff\n"])
def test_settings_of_setuptools_that_cannot_be_read(content: bytes, tmp_path: Path) -> None:
    """A file that the user names for every build is named where it is wrong."""
    project = write_project(tmp_path / "p", "demo")
    (tmp_path / "own.cfg").write_bytes(content)
    here, told = Here(), str(tmp_path / "own.cfg")
    here.environ = {"DIST_EXTRA_CONFIG": told}
    with pytest.raises(InvalidConfiguration, match="DIST_EXTRA_CONFIG") as raised:
        ProjectBuilder(here.make, {}).wheels(BuildOrder(project, (PLAIN,), Recipe()), tmp_path)
    assert raised.value.where == told
