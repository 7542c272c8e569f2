"""``wheelfit lock`` of extras and groups that are declared to conflict."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner

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


class Desk:
    """Lock a project, and install from the lock into one folder."""

    def __init__(self, run: Runner, folder: Path, url: str) -> None:
        self._run = run
        self._url = url
        self.folder = folder
        self.target = folder / "target"
        self.path = folder / "pylock.toml"

    def write(
        self, conflicts: str, *, table: str = "tool.wheelfit", project: str = PROJECT
    ) -> None:
        """Write the project."""
        text = f"{project}\n[{table}]\nconflicts = {conflicts}\n"
        (self.folder / "pyproject.toml").write_text(text)

    def lock(self, *words: str, code: int = 0) -> CommandResult:
        """Lock it for Linux and Windows."""
        place = ("--project", self.folder, "-i", self._url, "-o", self.path)
        platforms = ("--platform", "linux-x86_64", "--platform", "windows-x86_64")
        return self._run("lock", *place, *platforms, *words, code=code)

    def sync(self, *words: str, code: int = 0) -> CommandResult:
        """Install what the lock has for some extras and groups."""
        return self._run("sync", "--target", self.target, self.path, *words, code=code)

    def installed(self) -> dict[str, str]:
        """Return what is installed: names to versions."""
        packages = self._run("list", "--target", self.target, "--json").object["packages"]
        return {package["name"]: package["version"] for package in packages}

    def markers(self, name: str) -> dict[str, str | None]:
        """Return the markers of the entries of a package, by version."""
        packages = tomllib.loads(self.path.read_text())["packages"]
        return {
            package["version"]: package.get("marker")
            for package in packages
            if package["name"] == name
        }


@pytest.fixture
def desk(run: Runner, tmp_path: Path) -> Iterator[Desk]:
    """Give a desk with an index."""
    with RecordingIndex(tmp_path / "wheels") as index:
        for version in ("1", "2"):
            build_wheel(tmp_path / "wheels", "engine", version)
            build_wheel(tmp_path / "wheels", "base", version)
        build_wheel(tmp_path / "wheels", "extra-tool", "1", requires=["engine"])
        yield Desk(run, tmp_path, index.url)


EXTRAS = '[[{ extra = "cpu" }, { extra = "gpu" }]]'
BOTH = """[
  [{ extra = "cpu" }, { extra = "gpu" }],
  [{ group = "old" }, { group = "new" }, { extra = "gpu" }, { extra = "cpu" }],
]"""


@pytest.fixture
def plain() -> str:
    """Give the project without groups."""
    return PROJECT.partition("[dependency-groups]")[0]


class TestLocks:
    """What stands in the lock."""

    @pytest.mark.parametrize("table", ["tool.wheelfit", "tool.uv"])
    def test_each_has_its_version(self, desk: Desk, plain: str, table: str) -> None:
        """Each of the extras has its own version, and at most one of them can be asked for."""
        desk.write(EXTRAS, table=table, project=plain)
        desk.lock("--no-extra", "more")
        assert desk.markers("engine") == {"1": "'cpu' in extras", "2": "'gpu' in extras"}
        assert desk.markers("base") == {"2": None}
        desk.sync("--extra", "cpu")
        assert desk.installed() == {"base": "2", "engine": "1"}
        desk.sync("--extra", "gpu")
        assert desk.installed() == {"base": "2", "engine": "2"}
        result = desk.sync("--extra", "gpu", "--extra", "cpu", code=1)
        assert "cpu and gpu cannot be installed together" in result.err

    def test_what_others_need(self, desk: Desk, plain: str) -> None:
        """What is needed beside them has one version, whichever of them is asked for."""
        desk.write(EXTRAS, project=plain)
        desk.lock()
        for words, version in ((["cpu"], "1"), (["gpu"], "2"), ([], "1")):
            desk.sync("--extra", "more", *(w for word in words for w in ("--extra", word)))
            assert desk.installed()["engine"] == version
        assert desk.markers("extra-tool") == {"1": "'more' in extras"}

    def test_extras_and_groups(self, desk: Desk) -> None:
        """Extras and groups can conflict with each other."""
        desk.write(BOTH)
        desk.lock()
        for words, version in (
            (["--extra", "cpu"], "1"),
            (["--group", "old"], "1"),
            (["--group", "new"], "2"),
        ):
            desk.sync(*words)
            assert desk.installed()["engine"] == version
        result = desk.sync("--extra", "cpu", "--group", "new", code=1)
        assert "cannot be installed together" in result.err

    def test_unchanged(self, desk: Desk, plain: str) -> None:
        """The lock is up to date as long as nothing has changed, also without the cache."""
        desk.write(EXTRAS, project=plain)
        desk.lock()
        before = desk.path.read_bytes()
        desk.lock("--check")
        desk.lock("--no-cache-dir")
        assert desk.path.read_bytes() == before

    def test_without_a_declaration(self, desk: Desk, plain: str) -> None:
        """Without it there is no solution, as before."""
        desk.write("[]", project=plain)
        result = desk.lock(code=3)
        assert "engine" in result.err


class TestFaults:
    """Declarations that cannot be meant."""

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
    def test_wrong(self, desk: Desk, conflicts: str, words: str) -> None:
        """Each is an error that names its place, and no lock is written."""
        desk.write(conflicts)
        result = desk.lock(code=1)
        assert words in result.err
        assert not desk.path.exists()

    def test_one_includes_the_other(self, desk: Desk, plain: str) -> None:
        """An extra that includes what it conflicts with could never be installed."""
        own = plain.replace('cpu = ["engine==1"]', 'cpu = ["engine==1", "app[gpu]"]')
        desk.write(EXTRAS, project=own)
        assert "extra cpu includes extra gpu" in desk.lock(code=1).err

    def test_named_machines(self, desk: Desk, plain: str) -> None:
        """A lock for machines that are named is for one of them."""
        desk.write(EXTRAS, project=plain)
        place = ("--project", desk.folder, "-o", desk.path, "--for", "cpu-x86_64-v3")
        result = desk._run("lock", *place, code=2)
        assert "--extra" in result.err
