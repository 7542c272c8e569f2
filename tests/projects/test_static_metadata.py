"""What projects say of themselves without being asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.errors import InvalidSource
from wheelfit.projects.static_metadata import (
    core_metadata_of,
    is_project,
    read_pyproject_metadata,
    read_sdist_metadata,
)

COMPLETE = b"""
[project]
name = "Demo.Project"
version = "1.0.0rc1"
requires-python = ">=3.9"
dependencies = ["a>=1", "b @ https://example.org/b.whl ; os_name == 'nt'"]
[project.optional-dependencies]
Test_Extra = ["c; python_version < '3.12'", "d @ https://example.org/d.whl"]
"""


def test_a_complete_project_file(tmp_path: Path) -> None:
    """PEP 621: what is not dynamic is core metadata, extras as markers."""
    (tmp_path / "pyproject.toml").write_bytes(COMPLETE)
    core = core_metadata_of(read_pyproject_metadata(tmp_path) or b"", "here")
    assert (core.name, str(core.version)) == ("demo-project", "1.0.0rc1")
    assert str(core.requires_python) == ">=3.9"
    assert core.provides_extra == {"test-extra"}
    assert [str(one) for one in core.requires] == [
        "a>=1",
        'b @ https://example.org/b.whl ; os_name == "nt"',
        'c; python_version < "3.12" and extra == "test-extra"',
        'd @ https://example.org/d.whl ; extra == "test-extra"',
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[tool.x]",
        "no toml",
        "[project]\nname = 'x'",
        "[project]\nname = 'x'\nversion = 'x'",
        "[project]\nname = '-'\nversion = '1'",
        "[project]\nname = 'x'\nversion = '1'\ndynamic = ['dependencies']",
        "[project]\nname = 'x'\ndynamic = ['version']",
        "[project]\nname = 'x'\nversion = '1'\ndependencies = ['==']",
        "[project]\nname = 'x'\nversion = '1'\ndependencies = 3",
        "[project]\nname = 'x'\nversion = '1'\ndependencies = ['y @ {root:uri}/y']",
        "[project]\nname = 'x'\nversion = '1'\noptional-dependencies.gpu = ['y @ {root:uri}/y']",
        "[project]\nname = 'x'\nversion = '1'\ndependencies = 'some'",
        "[project]\nname = 'x'\nversion = '1'\noptional-dependencies.gpu = 'some'",
        "[project]\nname = 'x'\nversion = '1'\ndynamic = 'dependencies'",
        "[project]\nname = 'x'\nversion = '1'\nrequires-python = \"a\\nRequires-Dist: b\"",
        "project = 3",
    ],
)
def test_an_incomplete_project_file(text: str, tmp_path: Path) -> None:
    """Where something is open or wrong, the backend is asked."""
    (tmp_path / "pyproject.toml").write_text(text)
    assert read_pyproject_metadata(tmp_path) is None


@pytest.mark.parametrize(
    ("headers", "is_reliable"),
    [
        ("Metadata-Version: 2.2", True),
        ("Metadata-Version: 2.4\nDynamic: Description\nDynamic: license-file", True),
        ("Metadata-Version: 2.10", True),
        ("Metadata-Version: 2.1", False),
        ("Metadata-Version: 2.4\nDynamic: Requires-Dist", False),
        ("Metadata-Version: 2.4\nDynamic: Summary\nDynamic: requires-python", False),
        ("Metadata-Version: 2.4\nDynamic: Provides-Extra", False),
        ("Metadata-Version: two", False),
        ("", False),
    ],
)
def test_metadata_of_an_archive(headers: str, is_reliable: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """PEP 643: fields that decide are fixed from version 2.2 on, unless said to be dynamic."""
    text = f"{headers}\nName: demo\nVersion: 1.0\n".lstrip()
    (tmp_path / "PKG-INFO").write_text(text)
    assert read_sdist_metadata(tmp_path) == (text.encode(), is_reliable)


def test_nothing(tmp_path: Path) -> None:
    """A folder without files says nothing, and is not a project."""
    assert read_sdist_metadata(tmp_path) == (None, False)
    assert read_pyproject_metadata(tmp_path) is None
    assert not is_project(tmp_path)
    (tmp_path / "setup.py").touch()
    assert is_project(tmp_path)


def test_without_name() -> None:
    """Metadata without a name is that of no project."""
    with pytest.raises(InvalidSource, match="no Name"):
        core_metadata_of(b"Version: 1\n", "here")
