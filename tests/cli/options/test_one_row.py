"""A single row of the option table adds an option everywhere."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from programs import run_program

REPOSITORY = Path(__file__).parents[3]
ROW = """\
    Option(
        "--paint",
        OneOf("red", "blue"),
        "how walls are painted",
        default="red",
        project=ProjectAccess.SET,
    ),
"""
BEFORE = "_SUPPORT = (\n"


class RepositoryCopy:
    """A copy of the repository with an additional option."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(REPOSITORY / "src", folder / "src")  # with what is compiled
        shutil.copytree(REPOSITORY / "docs" / "reference", folder / "docs" / "reference")
        table = folder / "src/wheelfit/cli/options/table/machine.py"
        text = table.read_text()
        assert text.count(BEFORE) == 1
        table.write_text(text.replace(BEFORE, BEFORE + ROW))
        (folder / "home").mkdir()
        self.project = folder / "project"
        self.project.mkdir()

    def run(self, *words: str | Path, **variables: str) -> str:
        """Run Python with the copy, and return its output."""
        folders = {"PYTHONPATH": str(self._folder / "src"), "HOME": str(self._folder / "home")}
        environ = {"PATH": os.environ["PATH"], **folders, **variables}
        completed = run_program(sys.executable, *words, code=None, cwd=self.project, env=environ)
        return completed.stdout + completed.stderr

    def wheelfit(self, *words: str, **variables: str) -> str:
        """Run the command line of the copy, and return its output."""
        return self.run("-m", "wheelfit", *words, **variables)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the copy."""
        file = self._folder / path
        file.write_text(text)
        return file

    def read(self, path: str) -> str:
        """Return the text of a file of the copy."""
        return (self._folder / path).read_text()


@pytest.fixture(scope="module")
def repository_copy(tmp_path_factory: pytest.TempPathFactory) -> RepositoryCopy:
    """Return a copy of the repository with an additional option."""
    return RepositoryCopy(tmp_path_factory.mktemp("copy"))


def test_command_line(repository_copy: RepositoryCopy) -> None:
    """``--help`` lists it and a wrong value is refused, in every command of the group."""
    assert "--paint {red,blue}" in repository_copy.wheelfit(
        "install", "--help", "all", COLUMNS="200"
    )
    assert "how walls are painted" in repository_copy.wheelfit(
        "probe", "--help", "all", COLUMNS="200"
    )
    assert "'green' is none of red, blue" in repository_copy.wheelfit(
        "install", "--paint", "green", "x"
    )
    assert "--paint" not in repository_copy.wheelfit("uninstall", "--help")


@pytest.mark.integration
def test_files_and_variables(repository_copy: RepositoryCopy) -> None:
    """``wheelfit.toml``, ``WHEELFIT_*`` and ``[tool.wheelfit]`` set it."""
    assert tomllib.loads(repository_copy.wheelfit("config", "show", "install"))["paint"] == "red"
    user = repository_copy.write("wheelfit.toml", 'paint = "blue"\n')
    shown = repository_copy.wheelfit("config", "show", "--origin", WHEELFIT_CONFIG_FILE=str(user))
    assert f'paint = "blue"  # {user}:1' in shown
    shown = repository_copy.wheelfit("config", "show", "--origin", WHEELFIT_PAINT="blue")
    assert 'paint = "blue"  # WHEELFIT_PAINT' in shown
    assert "paint: 'green' is none of red, blue" in repository_copy.wheelfit(
        "config", "show", WHEELFIT_PAINT="green"
    )
    repository_copy.write("project/pyproject.toml", '[tool.wheelfit]\npaint = "blue"\n')
    assert tomllib.loads(repository_copy.wheelfit("config", "show", "lock"))["paint"] == "blue"
    assert tomllib.loads(repository_copy.wheelfit("config", "show", "install"))["paint"] == "red"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(repository_copy: RepositoryCopy, shell: str) -> None:
    """Shell completion offers it."""
    script = repository_copy.wheelfit("completion", shell)
    assert "-l paint" in script if shell == "fish" else "--paint" in script
    assert "red blue" in script


def test_reference_pages(repository_copy: RepositoryCopy) -> None:
    """The reference pages are outdated until they are written."""
    folder = Path("..", "docs", "reference")
    script = folder / "write_option_tables.py"
    assert "not up to date" in repository_copy.run(script, "--check")
    assert repository_copy.run(script) == ""
    assert repository_copy.run(script, "--check") == ""
    row = "| `--paint` `red` / `blue` | how walls are painted |"
    assert row in repository_copy.read("docs/reference/commands.md")
    row = "| `paint` | `red` / `blue` | `WHEELFIT_PAINT` | yes | how walls are painted |"
    assert row in repository_copy.read("docs/reference/configuration.md")
