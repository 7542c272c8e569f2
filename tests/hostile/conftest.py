"""A victim to attack, and the promise that nothing happens to it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.running import CommandResult, tree
from hostile.shelf import Shelf

from wheelfit.cli.main import main
from wheelfit.testing.index import RecordingIndex


@dataclass
class Site:
    """A user, an environment, and an index that means harm.

    Everything a command may reach by accident lies below one folder, which is compared
    before and after.
    """

    folder: Path
    """Holds all of the following."""
    venv: Path
    """The environment."""
    wheels: Path
    """Where the attacker makes wheels."""
    shelf: Shelf
    """What the index serves."""
    index: RecordingIndex
    """The index."""
    capsys: pytest.CaptureFixture[str]
    """Catches what is said."""
    flat: bool = False
    """Install into a folder instead, which is quicker: no other Python is started."""

    def world(self) -> dict[str, str]:
        """Describe everything but the caches, ours and that of the library for signatures."""
        found = tree(self.folder)
        caches = ("cache", "home/.cache", "home/.local")
        return {
            name: what
            for name, what in found.items()
            if not f"{name}/".startswith(tuple(f"{cache}/" for cache in caches))
            and not name.endswith("/.facts.json")  # facts about wheels, beside an index
        }

    def attempt(self, command: str, *words: str | Path) -> CommandResult:
        """Run a command on the environment, whatever comes of it; see `bare`."""
        line = [*self.place, *words]
        if command in {"install", "explain"}:
            line += ["--retries", "0"]
            if not {"-i", "--index-url", "--no-index"} & {str(word) for word in words}:
                line += ["-i", self.index.url]
        return self.bare(command, *line)

    def bare(self, *words: str | Path) -> CommandResult:
        """Run a command line as it is.

        A command that fails has changed nothing, says so in the words of the family of
        errors, and shows no traceback.
        """
        before = self.world()
        self.capsys.readouterr()
        code = main([str(word) for word in words])
        caught = self.capsys.readouterr()
        result = CommandResult(code, caught.out, caught.err)
        assert "Traceback" not in result.out + result.err
        assert code in range(9), result
        assert self.index.failures == ()
        if code:
            assert self.world() == before
        return result

    def run(self, command: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Run a command that shall end with ``code``."""
        result = self.attempt(command, *words)
        assert result.code == code, result
        return result

    def refused(self, *words: str | Path, code: int) -> CommandResult:
        """Run an installation that must be refused."""
        result = self.run("install", "--json", *words, code=code)
        assert result.error["message"]
        return result

    @property
    def place(self) -> list[str | Path]:
        """The options that name the environment."""
        return ["--target", self.library] if self.flat else ["--python", self.venv]

    def installed(self) -> dict[str, str | None]:
        """Return name and label of what is installed; nothing was if there is no folder."""
        if self.flat and not self.library.exists():
            return {}
        packages = self.run("list", "--json").object["packages"]
        return {entry["name"]: entry["label"] for entry in packages}

    @property
    def library(self) -> Path:
        """Where packages go."""
        if self.flat:
            return self.folder / "flat"
        return next(self.venv.glob("lib/python*/site-packages"))


@pytest.fixture
def site(
    empty_venv: Path,
    tmp_path: Path,
    bare_environment: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Site]:
    """Set up the scene."""
    del bare_environment
    folder = tmp_path / "world"
    venv = folder / "venv"
    shutil.copytree(empty_venv, venv, symlinks=True)
    for name in ("home", "tmp", "work", "wheels"):
        (folder / name).mkdir()
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(folder / "cache"))
    for name in ("NETRC", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    monkeypatch.chdir(folder / "work")
    shelf = Shelf()
    with RecordingIndex(shelf) as index:
        yield Site(folder, venv, folder / "wheels", shelf, index, capsys)
