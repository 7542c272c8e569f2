"""``wheelfit lock`` with declared conflicts of extras and groups."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from cli.workplace import Workplace

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration

PROJECT = """
[project]
name = "app"
version = "1"
requires-python = "==3.11.*"
dependencies = ["base"]

[project.optional-dependencies]
cpu = ["engine==1"]
gpu = ["engine==2"]
more = ["extra-tool"]

[dependency-groups]
old = ["engine==1"]
new = ["engine==2"]
"""


class LockedProject(Workplace):
    """A project with its lock, and a folder to install into."""

    def write(
        self, conflicts: str, *, table: str = "tool.wheelfit", project: str = PROJECT
    ) -> None:
        """Write the project's pyproject.toml."""
        text = f"{project}\n[{table}]\nconflicts = {conflicts}\n"
        (self.folder / "pyproject.toml").write_text(text)

    def lock_project(self, *words: str, code: int = 0) -> CommandResult:
        """Lock for Linux and Windows."""
        return self.lock(
            "--project", self.folder, "--platform", "windows-x86_64", *words, code=code
        )

    def markers(self, name: str) -> dict[str, str | None]:
        """Return the markers of a package's entries, by version."""
        packages = tomllib.loads(self.path.read_text())["packages"]
        return {
            package["version"]: package.get("marker")
            for package in packages
            if package["name"] == name
        }


@pytest.fixture
def setup(run: Runner, tmp_path: Path) -> Iterator[LockedProject]:
    """Yield a project with an index."""
    with RecordingIndex(tmp_path / "wheels") as index:
        for version in ("1", "2"):
            build_wheel(tmp_path / "wheels", "engine", version)
            build_wheel(tmp_path / "wheels", "base", version)
        build_wheel(tmp_path / "wheels", "extra-tool", "1", requires=["engine"])
        yield LockedProject(run, tmp_path, index)


EXTRAS = '[[{ extra = "cpu" }, { extra = "gpu" }]]'
BOTH = """[
  [{ extra = "cpu" }, { extra = "gpu" }],
  [{ group = "old" }, { group = "new" }, { extra = "gpu" }, { extra = "cpu" }],
]"""


@pytest.fixture
def plain() -> str:
    """Return the project without groups."""
    return PROJECT.partition("[dependency-groups]")[0]


class TestLocks:
    """Contents of the lock."""

    @pytest.mark.parametrize("table", ["tool.wheelfit", "tool.uv"])
    def test_conflicting_extras(self, setup: LockedProject, plain: str, table: str) -> None:
        """Conflicting extras have different versions, and cannot be installed together."""
        setup.write(EXTRAS, table=table, project=plain)
        setup.lock_project("--no-extra", "more")
        assert setup.markers("engine") == {"1": "'cpu' in extras", "2": "'gpu' in extras"}
        assert setup.markers("base") == {"2": None}
        setup.sync("--extra", "cpu")
        assert setup.versions() == {"base": "2", "engine": "1"}
        setup.sync("--extra", "gpu")
        assert setup.versions() == {"base": "2", "engine": "2"}
        result = setup.sync("--extra", "gpu", "--extra", "cpu", code=1)
        assert "cpu and gpu conflict in this lock" in result.err

    def test_dependency_of_other_extras(self, setup: LockedProject, plain: str) -> None:
        """The dependency of another extra follows the version of the conflicting one."""
        setup.write(EXTRAS, project=plain)
        setup.lock_project()
        for words, version in ((["cpu"], "1"), (["gpu"], "2"), ([], "1")):
            setup.sync("--extra", "more", *(w for word in words for w in ("--extra", word)))
            assert setup.versions()["engine"] == version
        assert setup.markers("extra-tool") == {"1": "'more' in extras"}

    def test_extras_and_groups(self, setup: LockedProject) -> None:
        """Extras and groups can conflict with each other."""
        setup.write(BOTH)
        setup.lock_project()
        for words, version in (
            (["--extra", "cpu"], "1"),
            (["--group", "old"], "1"),
            (["--group", "new"], "2"),
        ):
            setup.sync(*words)
            assert setup.versions()["engine"] == version
        result = setup.sync("--extra", "cpu", "--group", "new", code=1)
        assert "cannot be installed together" in result.err

    def test_up_to_date(self, setup: LockedProject, plain: str) -> None:
        """The lock is up to date until something changes, with the cache and without."""
        setup.write(EXTRAS, project=plain)
        setup.lock_project()
        before = setup.path.read_bytes()
        setup.lock_project("--check")
        setup.lock_project("--no-cache-dir")
        assert setup.path.read_bytes() == before

    def test_no_declaration(self, setup: LockedProject, plain: str) -> None:
        """Without a declaration there is no solution."""
        setup.write("[]", project=plain)
        result = setup.lock_project(code=3)
        assert "engine" in result.err


class TestFaults:
    """Invalid declarations."""

    @pytest.mark.parametrize(
        ("conflicts", "words"),
        [
            ('[[{ extra = "cpu" }, { extra = "none" }]]', "the project has no extra none"),
            ('[[{ extra = "cpu" }]]', "names fewer than two extras or groups"),
            ('[["cpu", "gpu"]]', "must be a table as"),
            ('[[{ extra = "cpu", group = "old" }, { extra = "gpu" }]]', "either an extra or a"),
            ('"cpu"', "must be a list"),
            ('[[{ package = "b", extra = "cpu" }, { extra = "gpu" }]]', "names another package"),
        ],
    )
    def test_invalid_declaration(self, setup: LockedProject, conflicts: str, words: str) -> None:
        """An invalid declaration is an error that names its place, and no lock is written."""
        setup.write(conflicts)
        result = setup.lock_project(code=1)
        assert words in result.err
        assert not setup.path.exists()

    def test_conflicting_extra_is_included(self, setup: LockedProject, plain: str) -> None:
        """An extra that includes a conflicting one is an error."""
        own = plain.replace('cpu = ["engine==1"]', 'cpu = ["engine==1", "app[gpu]"]')
        setup.write(EXTRAS, project=own)
        assert "extra cpu includes extra gpu" in setup.lock_project(code=1).err

    def test_lock_for_named_machines(self, setup: LockedProject, plain: str) -> None:
        """A lock for named machines needs one of the extras."""
        setup.write(EXTRAS, project=plain)
        place = (
            "--project",
            setup.folder,
            "-o",
            setup.path,
            "--for",
            "cpu-x86_64-v3",
        )
        result = setup.run("lock", *place, code=2)
        assert "--extra" in result.err
