"""Projects as input: pyproject.toml in ``lock``, ``install`` and ``explain``."""

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


class ProjectFolder:
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
        """Write the project's pyproject.toml with settings of wheelfit."""
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
        """Lock, and return the lock."""
        self.lock(*words)
        return read_lock((self.folder / "pylock.toml").read_bytes(), where="pylock.toml")

    def versions(self, *words: str | Path) -> dict[str, str]:
        """Lock, and return the version of each package."""
        return {package.name: str(package.version) for package in self.locked(*words).packages}

    def installs(self, *words: str | Path) -> list[str]:
        """Return the packages that ``install`` would install, sorted."""
        result = self.run(
            "install", "--dry-run", "--target", self.folder / "target", "--json", *words
        )
        return sorted(f"{one['name']} {one['version']}" for one in result.object["install"])


@pytest.fixture
def setup(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProjectFolder]:
    """Yield a project that requires an app with an old library."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with RecordingIndex(tmp_path / "index") as index:
        build_wheel(tmp_path / "index", "app", "1", requires=("lib<2", "tool"))
        for version in ("1", "2"):
            build_wheel(tmp_path / "index", "lib", version)
            build_wheel(tmp_path / "index", "speed", version)
        build_wheel(tmp_path / "index", "tool", "1")
        setup = ProjectFolder(run, folder, index)
        setup.write()
        yield setup


class TestLocking:
    """``wheelfit lock`` of the project in the current folder."""

    def test_extras_and_groups_are_locked(self, setup: ProjectFolder) -> None:
        """Extras and groups are locked with their conditions; the project itself is not."""
        lock = setup.locked()
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

    def test_python_excluded_by_the_project(self, setup: ProjectFolder) -> None:
        """A Python that the project excludes is an error."""
        result = setup.run("lock", "--python-version", "3.9", code=2)
        assert "the project is for Python >=3.11, not for 3.9" in result.err

    def test_default_groups(self, setup: ProjectFolder) -> None:
        """Default groups of the project are recorded in the lock."""
        setup.write('default-groups = ["Test"]')
        assert list(setup.locked().default_groups) == ["test"]
        assert list(setup.locked("--no-group", "test").default_groups) == []

    def test_unknown_default_group(self, setup: ProjectFolder) -> None:
        """A default group must exist."""
        setup.write('default-groups = ["tset"]')
        assert "the default dependency group tset does not exist" in setup.lock(code=1).err

    def test_extra_and_group_options(self, setup: ProjectFolder) -> None:
        """Options select the extras and groups to lock, or exclude some."""
        plain = {"app": "1", "lib": "1", "tool": "1"}
        fast = {**plain, "speed": "2"}
        assert setup.versions("--no-extra", ":all:", "--no-group", ":all:") == plain
        assert setup.versions("--extra", "extra", "--no-group", ":all:", "-U") == fast
        assert setup.versions("--no-extra", ":all:", "--group", "test", "-U") == plain
        lock = setup.locked("--no-extra", "ALL", "--no-group", "dev")
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
    def test_unknown_extras_and_groups(
        self, setup: ProjectFolder, words: list[str], hint: str
    ) -> None:
        """The error about an unknown extra or group suggests one."""
        assert hint in setup.lock(*words, code=2).err

    def test_project_option(
        self, setup: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """``--project`` names the folder or the file; requirements are added to it."""
        setup.write('excludes = ["tool"]')
        monkeypatch.chdir(tmp_path)
        only: list[str | Path] = [
            "--no-extra",
            ":all:",
            "--no-group",
            ":all:",
            "-o",
            setup.folder / "pylock.toml",
        ]
        assert setup.versions("--project", setup.folder, *only) == {
            "app": "1",
            "lib": "1",
        }
        path = setup.folder / "pyproject.toml"
        assert setup.versions("--project", path, *only, "speed") == {
            "app": "1", "lib": "1", "speed": "2",
        }  # fmt: skip

    def test_requirements_without_the_project(self, setup: ProjectFolder) -> None:
        """With requirements the project and its settings are ignored."""
        setup.write('overrides = ["lib==2"]')
        assert setup.versions("lib<2") == {"lib": "1"}

    def test_no_project(self, setup: ProjectFolder) -> None:
        """Without a project and requirements there is an error."""
        (setup.folder / "pyproject.toml").unlink()
        result = setup.lock(code=1)
        assert "the project's file cannot be read" in result.err
        assert "--project" in result.err

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes that have names")
    def test_pipe(self, setup: ProjectFolder) -> None:
        """A pipe in place of the file is an error."""
        (setup.folder / "pyproject.toml").unlink()
        os.mkfifo(setup.folder / "pyproject.toml")
        assert "it is a pipe" in setup.lock(code=1).err
        assert "it is a pipe" in setup.run("install", "-r", "pyproject.toml", code=1).err

    def test_invalid_project(self, setup: ProjectFolder) -> None:
        """All errors of the project are reported at once, with lines."""
        setup.write(project='[project]\nname = "demo"\ndynamic = ["dependencies"]\n')
        result = setup.lock(code=1)
        assert "project.dynamic[0]: line 3: dependencies are dynamic" in result.err
        assert "[invalid-project]" in result.err

    def test_constraints_overrides_and_exclusions(self, setup: ProjectFolder) -> None:
        """The project's constraints, overrides and exclusions apply to all packages."""
        assert setup.versions()["lib"] == "1"
        setup.write('overrides = ["lib"]\nexcludes = ["tool"]\nconstraints = ["speed<2"]')
        assert setup.versions("-U", "--no-group", "dev") == {
            "app": "1",
            "lib": "2",
            "speed": "1",
        }

    def test_notes_about_unmet_requirements(self, setup: ProjectFolder) -> None:
        """Requirements that are unmet because of an override cause one note each."""
        setup.write('overrides = ["lib==2"]\nexcludes = ["tool"]')
        result = setup.lock("--platform", "macos-arm64", "--no-extra", "all", "--no-group", ":all:")
        assert result.err.count("note: app 1 needs lib<2, and an override selects 2\n") == 1
        assert result.err.count("note: app 1 needs tool, which is excluded\n") == 1
        assert "warning" not in result.err

    def test_precedence_of_the_command_line(self, setup: ProjectFolder) -> None:
        """Overrides of the command line replace those of the file."""
        setup.write('overrides = ["lib==7", "tool"]')
        assert setup.versions("--override", "lib==2")["lib"] == "2"

    def test_unsatisfiable_override(self, setup: ProjectFolder) -> None:
        """The explanation names the line of the override."""
        setup.write('overrides = [\n  "lib==7",\n]')
        result = setup.lock(code=3)
        assert "app 1 needs lib==7 (overridden by pyproject.toml:17)" in result.err

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ('overrides = ["lib @ https://x.test/lib-1-py3-none-any.whl"]', "cannot be a URL"),
            ("overrides = [\"lib; 'x' in variant_features\"]", "variant_features cannot be used"),
            ('constraints = ["lib[x]"]', "cannot be a constraint"),
        ],
    )
    def test_invalid_settings(self, setup: ProjectFolder, setting: str, message: str) -> None:
        """An error in a setting names its line."""
        setup.write(setting)
        result = setup.lock(code=1)
        assert message in result.err
        assert "where: pyproject.toml:16\n" in result.err


class TestInstalling:
    """``install`` of parts of a project, without its settings."""

    def test_requirement_file_option(self, setup: ProjectFolder) -> None:
        """``-r pyproject.toml`` installs the dependencies of the project."""
        setup.write('excludes = ["lib"]')
        assert setup.installs("-r", "pyproject.toml") == ["app 1", "lib 1", "tool 1"]

    def test_group_option(
        self, setup: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """``--group`` names a group of the current project, or of another one."""
        assert setup.installs("--group", "dev") == ["speed 1", "tool 1"]
        monkeypatch.chdir(tmp_path)
        path = setup.folder / "pyproject.toml"
        assert setup.installs("--group", f"{path}:Test", "lib") == ["lib 2", "tool 1"]

    @pytest.mark.parametrize(
        ("group", "message", "code"),
        [
            ("tset", "did you mean 'test'?", 2),
            ("other.toml:test", "which other.toml is not", 2),
            ("none/pyproject.toml:test", "cannot be read", 1),
        ],
    )
    def test_unknown_group(self, setup: ProjectFolder, group: str, message: str, code: int) -> None:
        """The error about an unknown group suggests one."""
        assert message in setup.run("install", "--group", group, code=code).err

    def test_overrides(self, setup: ProjectFolder) -> None:
        """An override applies to dependencies and to requirements."""
        assert setup.installs("app", "--override", "lib>=2") == [
            "app 1",
            "lib 2",
            "tool 1",
        ]
        assert setup.installs("lib==1", "--override", "lib==2") == ["lib 2"]
        (setup.folder / "overrides.txt").write_text("# newer\nlib >= 2\n")
        assert setup.installs("app", "--override", "overrides.txt") == [
            "app 1",
            "lib 2",
            "tool 1",
        ]

    def test_invalid_overrides(self, setup: ProjectFolder) -> None:
        """A missing file and an invalid requirement are errors."""
        result = setup.run("install", "app", "--override", "none.txt", code=1)
        assert "none.txt" in result.err
        result = setup.run("install", "app", "--override", "lib>>2", code=1)
        assert "where: --override" in result.err
        url = "lib @ https://x.test/lib-1-py3-none-any.whl"
        assert (
            "cannot be a URL"
            in setup.run(
                "install", "--python", sys.executable, "app", "--override", url, code=1
            ).err
        )

    def test_exclusions(self, setup: ProjectFolder) -> None:
        """An excluded package is not installed as a dependency either."""
        assert setup.installs("app", "--exclude", "Lib") == ["app 1", "tool 1"]
        assert (
            "is not a valid name" in setup.run("install", "app", "--exclude", "lib<2", code=2).err
        )

    def test_requirement_unmet_by_an_override(self, setup: ProjectFolder) -> None:
        """A requirement that an override leaves unmet causes a note, not a warning."""
        words: list[str | Path] = ["--target", setup.folder / "target"]
        result = setup.run("install", *words, "app", "--override", "lib==2")
        assert "note: app 1 needs lib<2, and an override selects 2\n" in result.err
        assert "warning" not in result.err
        result = setup.run("install", *words, "lib", "--override", "lib==1")
        result = setup.run("install", *words, "lib==2", "--override", "lib", "--json", "-U")
        assert result.object["broken_requirements"] == []
        assert "app 1 needs lib<2, but lib 2 will be installed, as was decided\n" in result.err
        result = setup.run("install", *words, "lib==1")
        result = setup.run("install", *words, "lib==2", "--json")
        assert [requirement["name"] for requirement in result.object["broken_requirements"]] == [
            "app"
        ]

    def test_sync_with_an_override(self, setup: ProjectFolder) -> None:
        """Syncing a lock with an override causes no warning."""
        words: list[str | Path] = ["--target", setup.folder / "target"]
        setup.run("install", *words, "app")
        setup.write('overrides = ["lib==2"]')
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        setup.run("lock", "--python-version", python)
        result = setup.run("sync", *words, "--json")
        assert result.object["broken_requirements"] == []
        assert "app 1 needs lib<2, but lib 2 will be installed, as was decided\n" in result.err

    def test_settings_of_the_current_folder(self, setup: ProjectFolder) -> None:
        """``install`` ignores the settings of the current folder."""
        setup.write("this is not TOML, and wheelfit does not care")
        assert setup.installs("lib") == ["lib 2"]

    def test_settings_of_the_user(
        self, setup: ProjectFolder, user_settings: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Overrides, exclusions and constraints can be in settings and variables."""
        user_settings.write_text('overrides = ["lib==2"]\nexcludes = ["tool"]')
        monkeypatch.setenv("WHEELFIT_CONSTRAINTS", "speed<2\n")
        assert setup.installs("app", "speed") == ["app 1", "lib 2", "speed 1"]

    def test_explain_with_dependencies(self, setup: ProjectFolder) -> None:
        """``explain --with-deps`` applies overrides and groups as ``install`` does."""
        result = setup.run(
            "explain", "--with-deps", "--group", "test", "app", "--override", "lib==7", code=3
        )
        assert "app 1 needs lib==7 (overridden by --override)" in result.err

    def test_explain(self, setup: ProjectFolder) -> None:
        """``explain`` applies overrides and exclusions."""
        assert "lib 2" in setup.run("explain", "lib==1", "--override", "lib==2").out
        assert "lib" not in setup.run("explain", "lib", "tool", "--exclude", "lib").out
