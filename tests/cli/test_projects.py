"""Projects as input: what ``lock``, ``install`` and ``explain`` take from a ``pyproject.toml``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner

from wheelfit.locking.document import Lock, read_lock
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

PROJECT = """\
[project]
name = "demo"
version = "1"
requires-python = ">=3.11"
dependencies = ["app"]

[project.optional-dependencies]
extra = ["speed"]
all = ["demo[extra]", "tool"]

[dependency-groups]
test = ["tool"]
dev = [{include-group = "test"}, "speed<2"]
"""


class Desk:
    """Work in the folder of a project, with one index.

    :param run: runs commands.
    :param folder: of the project.
    :param index: where packages come from.
    """

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self._run = run
        self.folder = folder
        self._index = index

    def write(self, settings: str = "", project: str = PROJECT) -> Path:
        """Write the project's file, with settings of ours."""
        path = self.folder / "pyproject.toml"
        path.write_text(f"{project}\n[tool.wheelfit]\n{settings}")
        return path

    def run(self, command: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Run a command with the index."""
        return self._run(command, "-i", self._index.url, "--no-cache-dir", *words, code=code)

    def lock(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Lock for one platform."""
        return self.run(
            "lock", "--platform", "linux-x86_64", "--python-version", "3.12", *words, code=code
        )

    def locked(self, *words: str | Path) -> Lock:
        """Lock, and return what was written."""
        self.lock(*words)
        return read_lock((self.folder / "pylock.toml").read_bytes(), where="pylock.toml")

    def versions(self, *words: str | Path) -> dict[str, str]:
        """Lock, and return the version of each package."""
        return {package.name: str(package.version) for package in self.locked(*words).packages}

    def installs(self, *words: str | Path) -> list[str]:
        """Return what ``install`` would install, sorted."""
        result = self.run(
            "install", "--dry-run", "--target", self.folder / "target", "--json", *words
        )
        return sorted(f"{one['name']} {one['version']}" for one in result.object["install"])


@pytest.fixture
def desk(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Serve an app that needs an old library, and stand in a project that needs the app."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with RecordingIndex(tmp_path / "index") as index:
        build_wheel(tmp_path / "index", "app", "1", requires=("lib<2", "tool"))
        for version in ("1", "2"):
            build_wheel(tmp_path / "index", "lib", version)
            build_wheel(tmp_path / "index", "speed", version)
        build_wheel(tmp_path / "index", "tool", "1")
        desk = Desk(run, folder, index)
        desk.write()
        yield desk


class TestLocking:
    """``wheelfit lock`` without requirements locks the project of the current folder."""

    def test_everything(self, desk: Desk) -> None:
        """Extras and groups are in the lock, each with its condition; the project is not."""
        lock = desk.locked()
        markers = {
            (package.name, str(package.version)): str(package.marker) if package.marker else None
            for package in lock.packages
        }
        assert markers == {
            ("app", "1"): None,
            ("lib", "1"): None,
            ("tool", "1"): None,
            ("speed", "1"): ('"all" in extras or "dev" in dependency_groups or "extra" in extras'),
        }
        assert set(lock.extras) == {"extra", "all"}
        assert set(lock.dependency_groups) == {"test", "dev"}
        assert not lock.default_groups
        assert "3.12.4" in (lock.requires_python or ())
        assert "3.13.0" not in (lock.requires_python or ())

    def test_a_python_that_the_project_is_not_for(self, desk: Desk) -> None:
        """A lock for a Python that the project excludes would be for nobody."""
        result = desk.run("lock", "--python-version", "3.9", code=2)
        assert "the project is for Python >=3.11, not for 3.9" in result.err

    def test_default_groups(self, desk: Desk) -> None:
        """The project says which groups are installed where none is named."""
        desk.write('default-groups = ["Test"]')
        assert list(desk.locked().default_groups) == ["test"]
        assert list(desk.locked("--no-group", "test").default_groups) == []

    def test_a_default_group_that_is_none(self, desk: Desk) -> None:
        """A default group must be a group of the project."""
        desk.write('default-groups = ["tset"]')
        assert "the default dependency group tset does not exist" in desk.lock(code=1).err

    def test_some_extras_and_groups(self, desk: Desk) -> None:
        """Options name the extras and groups that are locked, or leave some out."""
        plain = {"app": "1", "lib": "1", "tool": "1"}
        fast = {**plain, "speed": "2"}
        assert desk.versions("--no-extra", ":all:", "--no-group", ":all:") == plain
        assert desk.versions("--extra", "extra", "--no-group", ":all:", "-U") == fast
        assert desk.versions("--no-extra", ":all:", "--group", "test", "-U") == plain
        lock = desk.locked("--no-extra", "ALL", "--no-group", "dev")
        assert (set(lock.extras), set(lock.dependency_groups)) == (
            {"extra"},
            {"test"},
        )

    @pytest.mark.parametrize(
        ("words", "hint"),
        [
            (["--extra", "extr"], "did you mean 'extra'?"),
            (["--no-extra", "zzz"], "there are: extra, all"),
            (["--group", "tests"], "did you mean 'test'?"),
            (["--no-group", "zzz"], "there are: test, dev"),
        ],
    )
    def test_extras_and_groups_that_are_none(self, desk: Desk, words: list[str], hint: str) -> None:
        """What the project does not have is an error that says what it has."""
        assert hint in desk.lock(*words, code=2).err

    def test_another_project(
        self, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """``--project`` names the folder or the file; requirements come on top of it."""
        desk.write('excludes = ["tool"]')
        monkeypatch.chdir(tmp_path)
        only: list[str | Path] = [
            "--no-extra",
            ":all:",
            "--no-group",
            ":all:",
            "-o",
            desk.folder / "pylock.toml",
        ]
        assert desk.versions("--project", desk.folder, *only) == {"app": "1", "lib": "1"}
        assert desk.versions("--project", desk.folder / "pyproject.toml", *only, "speed") == {
            "app": "1", "lib": "1", "speed": "2",
        }  # fmt: skip

    def test_requirements_instead_of_the_project(self, desk: Desk) -> None:
        """Who names requirements does not work on the project, and its settings do not count."""
        desk.write('overrides = ["lib==2"]')
        assert desk.versions("lib<2") == {"lib": "1"}

    def test_no_project(self, desk: Desk) -> None:
        """Without a project and without requirements there is nothing to lock."""
        (desk.folder / "pyproject.toml").unlink()
        result = desk.lock(code=1)
        assert "the project's file cannot be read" in result.err
        assert "--project" in result.err

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes that have names")
    def test_a_pipe(self, desk: Desk) -> None:
        """Nobody waits for a pipe that an archive brought along."""
        (desk.folder / "pyproject.toml").unlink()
        os.mkfifo(desk.folder / "pyproject.toml")
        assert "it is a pipe" in desk.lock(code=1).err
        assert "it is a pipe" in desk.run("install", "-r", "pyproject.toml", code=1).err

    def test_a_broken_project(self, desk: Desk) -> None:
        """Everything that is wrong is told at once, with lines."""
        desk.write(project='[project]\nname = "demo"\ndynamic = ["dependencies"]\n')
        result = desk.lock(code=1)
        assert "project.dynamic[0]: line 3: dependencies are dynamic" in result.err
        assert "[invalid-project]" in result.err

    def test_constraints_overrides_and_exclusions(self, desk: Desk) -> None:
        """What the project says of versions counts, whoever needs them."""
        assert desk.versions()["lib"] == "1"
        desk.write('overrides = ["lib"]\nexcludes = ["tool"]\nconstraints = ["speed<2"]')
        assert desk.versions("-U", "--no-group", "dev") == {"app": "1", "lib": "2", "speed": "1"}

    def test_what_a_lock_leaves_unmet_is_told(self, desk: Desk) -> None:
        """Needs that are not met because of an override are told, each once."""
        desk.write('overrides = ["lib==2"]\nexcludes = ["tool"]')
        result = desk.lock("--platform", "macos-arm64", "--no-extra", "all", "--no-group", ":all:")
        assert result.err.count("note: app 1 needs lib<2, and gets 2 by an override\n") == 1
        assert result.err.count("note: app 1 needs tool, which is excluded\n") == 1
        assert "warning" not in result.err

    def test_the_command_line_counts_more(self, desk: Desk) -> None:
        """Of a project that the command line overrides the file is not heard."""
        desk.write('overrides = ["lib==7", "tool"]')
        assert desk.versions("--override", "lib==2")["lib"] == "2"

    def test_an_override_that_leaves_nothing(self, desk: Desk) -> None:
        """The proof names the line of the override."""
        desk.write('overrides = [\n  "lib==7",\n]')
        result = desk.lock(code=3)
        assert "app 1 needs lib==7 (overridden by pyproject.toml:17)" in result.err

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ('overrides = ["lib @ https://x.test/lib-1-py3-none-any.whl"]', "cannot be a URL"),
            ("overrides = [\"lib; 'x' in variant_features\"]", "variant_features cannot be used"),
            ('constraints = ["lib[x]"]', "cannot be a constraint"),
        ],
    )
    def test_what_cannot_be_said(self, desk: Desk, setting: str, message: str) -> None:
        """An error in a setting names its line."""
        desk.write(setting)
        result = desk.lock(code=1)
        assert message in result.err
        assert "where: pyproject.toml:16\n" in result.err


class TestInstalling:
    """``install`` takes parts of a project by name, and never its settings."""

    def test_the_dependencies_of_a_project(self, desk: Desk) -> None:
        """``-r pyproject.toml`` asks for what the project needs always."""
        desk.write('excludes = ["lib"]')
        assert desk.installs("-r", "pyproject.toml") == ["app 1", "lib 1", "tool 1"]

    def test_a_group(self, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """``--group`` names a group of the current folder's project, or of another one."""
        assert desk.installs("--group", "dev") == ["speed 1", "tool 1"]
        monkeypatch.chdir(tmp_path)
        path = desk.folder / "pyproject.toml"
        assert desk.installs("--group", f"{path}:Test", "lib") == ["lib 2", "tool 1"]

    @pytest.mark.parametrize(
        ("group", "message", "code"),
        [
            ("tset", "did you mean 'test'?", 2),
            ("other.toml:test", "which other.toml is not", 2),
            ("none/pyproject.toml:test", "cannot be read", 1),
        ],
    )
    def test_a_group_that_is_none(self, desk: Desk, group: str, message: str, code: int) -> None:
        """A group that is not there is an error that says what may have been meant."""
        assert message in desk.run("install", "--group", group, code=code).err

    def test_overrides(self, desk: Desk) -> None:
        """An override counts for what packages need and for what is asked for."""
        assert desk.installs("app", "--override", "lib>=2") == ["app 1", "lib 2", "tool 1"]
        assert desk.installs("lib==1", "--override", "lib==2") == ["lib 2"]
        (desk.folder / "overrides.txt").write_text("# newer\nlib >= 2\n")
        assert desk.installs("app", "--override", "overrides.txt") == ["app 1", "lib 2", "tool 1"]

    def test_an_override_that_is_none(self, desk: Desk) -> None:
        """A file that is not there and what is not a requirement are errors."""
        result = desk.run("install", "app", "--override", "none.txt", code=1)
        assert "none.txt" in result.err
        result = desk.run("install", "app", "--override", "lib>>2", code=1)
        assert "where: --override" in result.err
        url = "lib @ https://x.test/lib-1-py3-none-any.whl"
        assert (
            "cannot be a URL"
            in desk.run("install", "--python", sys.executable, "app", "--override", url, code=1).err
        )

    def test_exclusions(self, desk: Desk) -> None:
        """What is excluded is not installed, whoever needs it."""
        assert desk.installs("app", "--exclude", "Lib") == ["app 1", "tool 1"]
        assert "is not a valid name" in desk.run("install", "app", "--exclude", "lib<2", code=2).err

    def test_what_is_not_met_on_purpose(self, desk: Desk) -> None:
        """Of needs that an override leaves unmet a note tells, and no warning."""
        words: list[str | Path] = ["--target", desk.folder / "target"]
        result = desk.run("install", *words, "app", "--override", "lib==2")
        assert "note: app 1 needs lib<2, and gets 2 by an override\n" in result.err
        assert "warning" not in result.err
        result = desk.run("install", *words, "lib", "--override", "lib==1")
        result = desk.run("install", *words, "lib==2", "--override", "lib", "--json", "-U")
        assert result.object["broken_requirements"] == []
        assert "note: app 1 needs lib<2, and will find lib 2, as was decided\n" in result.err
        result = desk.run("install", *words, "lib==1")
        result = desk.run("install", *words, "lib==2", "--json")
        assert [requirement["name"] for requirement in result.object["broken_requirements"]] == [
            "app"
        ]

    def test_what_a_lock_does_not_meet_on_purpose(self, desk: Desk) -> None:
        """What was locked with an override is synced without a warning."""
        words: list[str | Path] = ["--target", desk.folder / "target"]
        desk.run("install", *words, "app")
        desk.write('overrides = ["lib==2"]')
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        desk.run("lock", "--python-version", python)
        result = desk.run("sync", *words, "--json")
        assert result.object["broken_requirements"] == []
        assert "note: app 1 needs lib<2, and will find lib 2, as was decided\n" in result.err

    def test_the_settings_of_the_folder_do_not_count(self, desk: Desk) -> None:
        """What an archive brings along decides nothing for ``install``."""
        desk.write("this is not TOML, and wheelfit does not care")
        assert desk.installs("lib") == ["lib 2"]

    def test_settings_of_the_user_count(
        self, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Overrides, exclusions and constraints can stand in files and variables."""
        settings = tmp_path / "settings.toml"
        settings.write_text('overrides = ["lib==2"]\nexcludes = ["tool"]')
        monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
        monkeypatch.setenv("WHEELFIT_CONSTRAINTS", "speed<2\n")
        assert desk.installs("app", "speed") == ["app 1", "lib 2", "speed 1"]

    def test_explaining(self, desk: Desk) -> None:
        """``explain --with-deps`` follows overrides and groups as ``install`` does."""
        result = desk.run(
            "explain", "--with-deps", "--group", "test", "app", "--override", "lib==7", code=3
        )
        assert "app 1 needs lib==7 (overridden by --override)" in result.err

    def test_explaining_alone(self, desk: Desk) -> None:
        """What is asked for is replaced for ``explain`` too, and said of what is left out."""
        assert "lib 2" in desk.run("explain", "lib==1", "--override", "lib==2").out
        assert "lib" not in desk.run("explain", "lib", "tool", "--exclude", "lib").out
