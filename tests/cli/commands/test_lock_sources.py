"""``wheelfit lock`` and ``sync`` of what must be built from source."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.commands.test_install_from_source import POISONED
from cli.running import CommandResult, Runner
from projects.writing import commit_all, write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


class Desk:
    """Lock what one index has, and install from the lock into one folder."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self.run = run
        self.folder = folder
        self.index = index
        self.wheels = folder / "wheels"
        self.target = folder / "target"
        self.path = folder / "pylock.toml"

    def lock(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Lock for Linux with this Python."""
        place = ("-i", self.index.url, "-o", self.path)
        return self.run("lock", *place, "--platform", "linux-x86_64", *words, code=code)

    def sync(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install what the lock has."""
        place = ("-i", self.index.url, "--target", self.target)
        return self.run("sync", *place, self.path, *words, code=code)

    def sdist(self, name: str, version: str = "1.0", **more: Any) -> Path:
        """Put a source distribution into the index."""
        made = write_project(self.folder / "projects" / f"{name}-{version}", name, version, **more)
        return write_sdist(self.wheels, made, name, version)

    def entry(self, name: str) -> dict[str, Any]:
        """Return the only entry of a package."""
        packages = tomllib.loads(self.path.read_text())["packages"]
        (entry,) = (package for package in packages if package["name"] == name)
        return dict(entry)

    def installed(self) -> dict[str, str]:
        """Return what is installed: names to versions."""
        packages = self.run("list", "--target", self.target, "--json").object["packages"]
        return {package["name"]: package["version"] for package in packages}


@pytest.fixture
def desk(run: Runner, tmp_path: Path) -> Iterator[Desk]:
    """Give a desk with an index of a plain wheel."""
    with RecordingIndex(tmp_path / "wheels") as index:
        made = Desk(run, tmp_path, index)
        build_wheel(made.wheels, "plain", "1.0")
        yield made


class TestSourceDistributions:
    """Source distributions of an index."""

    def test_unchanged_without_consent(self, desk: Desk) -> None:
        """What was locked with consent answers later requests without it: nothing is run."""
        desk.sdist("reader", dynamic=True, dependencies=["plain"])
        desk.lock("reader", "--allow-source", "reader")
        before = desk.path.read_bytes()
        assert "is up to date" in desk.lock("reader", "--check").out
        desk.lock("reader")
        assert desk.path.read_bytes() == before
        desk.lock("reader", "--allow-source", "never", code=3)

    def test_static_metadata(self, desk: Desk) -> None:
        """One that says what it needs is locked with its hash, and no code of it is run."""
        path = desk.sdist("reader", dependencies=["plain"], backend=POISONED)
        result = desk.lock("reader")
        entry = desk.entry("reader")
        assert entry["version"] == "1.0"
        assert "wheels" not in entry
        assert entry["sdist"]["name"] == path.name
        assert entry["sdist"]["url"].endswith(path.name)
        assert entry["sdist"]["hashes"].keys() == {"sha256"}
        assert entry["dependencies"] == [{"name": "plain"}]
        assert "wheelfit sync --allow-source reader" in result.err

    def test_sync_needs_consent(self, desk: Desk) -> None:
        """What must be built is named, all of it, and nothing is installed without consent."""
        desk.sdist("reader", dependencies=["plain"])
        desk.sdist("writer")
        build_wheel(desk.wheels, "app", "1.0", requires=["reader", "writer"])
        desk.lock("app")
        result = desk.sync(code=3)
        assert "reader 1.0 and writer 1.0 must be built from source" in result.err
        assert "--allow-source reader --allow-source writer" in result.err
        assert "--only-binary" not in result.err
        assert not desk.target.exists()
        desk.sync("--allow-source", "reader", "--allow-source", "writer")
        assert desk.installed() == {"app": "1.0", "plain": "1.0", "reader": "1.0", "writer": "1.0"}
        assert "matches the lock" in desk.sync().out

    def test_tree(self, desk: Desk) -> None:
        """What a machine gets shows what must be built, and builds nothing."""
        desk.sdist("reader", dependencies=["plain"], backend=POISONED)
        desk.lock("reader")
        result = desk.run("tree", "--for", "cpu-x86_64-v3", "--json", desk.path)
        assert {package["name"] for package in result.object["packages"]} == {"reader", "plain"}

    def test_dynamic_metadata(self, desk: Desk) -> None:
        """What only a backend knows needs consent to be locked; the hint is the command's own."""
        desk.sdist("reader", dependencies=["plain"], dynamic=True)
        result = desk.lock("reader", code=3)
        assert "reader 1.0 must be built from source" in result.err
        assert "add --allow-source reader" in result.err
        assert not desk.path.exists()
        desk.lock("reader", "--allow-source", "reader")
        assert desk.entry("reader")["dependencies"] == [{"name": "plain"}]

    def test_wheels_on_some_platforms(self, desk: Desk) -> None:
        """A release with a wheel for one platform has its source for the others."""
        build_wheel(desk.wheels, "reader", "1.0", tag="py3-none-win_amd64")
        desk.sdist("reader")
        desk.lock("reader", "--platform", "windows-x86_64")
        entry = desk.entry("reader")
        assert [wheel["name"] for wheel in entry["wheels"]] == ["reader-1.0-py3-none-win_amd64.whl"]
        assert entry["sdist"]["name"] == "reader-1.0.tar.gz"

    def test_unchanged(self, desk: Desk) -> None:
        """The same request finds nothing to do, and a new file of the release makes it stale."""
        desk.sdist("reader")
        desk.lock("reader")
        assert "up to date" in desk.lock("reader", "--check").out
        build_wheel(desk.wheels, "reader", "1.0")
        desk.lock("reader", "--check", code=31)

    def test_a_python_without_wheels(self, desk: Desk) -> None:
        """A Python for which something must be built is left out, as there are others."""
        build_wheel(desk.wheels, "reader", "1.0", tag="cp311-cp311-linux_x86_64")
        desk.sdist("reader", dynamic=True)
        project = desk.folder / "pyproject.toml"
        project.write_text(
            '[project]\nname = "app"\nversion = "1"\n'
            'requires-python = ">=3.11,<3.13"\ndependencies = ["reader"]\n'
        )
        place = ("lock", "-i", desk.index.url, "-o", desk.path, "--project", project)
        result = desk.run(*place)
        assert "left out: reader 1.0 must be built from source" in result.err
        assert "--allow-source reader locks for them" in result.err
        assert tomllib.loads(desk.path.read_text())["requires-python"] == ">=3.11,<3.12"
        desk.run(*place, "--allow-source", "reader")
        assert "sdist" in desk.entry("reader")

    def test_no_python_without_a_build(self, desk: Desk) -> None:
        """What must be built for every Python is named, not what the newest Pythons lack beside."""
        for tag in ("cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"):
            build_wheel(desk.wheels, "fast", "1.0", tag=tag)
        desk.sdist("fast", dynamic=True)
        desk.sdist("reader", dynamic=True)
        build_wheel(desk.wheels, "app", "2.0", requires=["reader", "fast"])
        project = desk.folder / "pyproject.toml"
        project.write_text(
            '[project]\nname = "demo"\nversion = "1"\n'
            'requires-python = ">=3.11"\ndependencies = ["app"]\n'
        )
        place = ("lock", "-i", desk.index.url, "-o", desk.path, "--project", project)
        result = desk.run(*place, code=3)
        assert "error: reader 1.0 must be built from source" in result.err
        assert "where: linux-x86_64, Python 3.11 and 3.12" in result.err
        assert "reader-1.0.tar.gz: app 2.0 needs it" in result.err
        assert "hint: add --allow-source reader," in result.err
        desk.run(*place, "--allow-source", "reader")
        assert tomllib.loads(desk.path.read_text())["requires-python"] == ">=3.11,<3.13"

    def test_never(self, desk: Desk) -> None:
        """Where nothing may ever be built, a source is no way to meet a requirement."""
        desk.sdist("reader")
        result = desk.lock("reader", "--allow-source", "never", code=3)
        assert "reader 1.0 must be built from source" in result.err

    def test_only_binary(self, desk: Desk) -> None:
        """``--only-binary`` locks an older release that has a wheel."""
        build_wheel(desk.wheels, "reader", "0.9")
        desk.sdist("reader")
        desk.lock("reader", "--only-binary", "reader")
        assert desk.entry("reader")["version"] == "0.9"

    def test_changed_archive(self, desk: Desk) -> None:
        """An archive that is not the locked one is never built."""
        path = desk.sdist("reader")
        desk.lock("reader")
        desk.sdist("reader", backend="\n# another\n")
        result = desk.sync("--allow-source", "reader", "--no-cache-dir", code=4)
        assert path.name in result.err
        assert not desk.target.exists()


class TestKnownMetadata:
    """What a backend told of the very same source counts later: nothing is run or asked again."""

    @pytest.fixture
    def counting(self, tmp_path: Path) -> tuple[str, Path]:
        """Return code for a backend that counts its runs, and the file in which it does so."""
        path = tmp_path / "runs"
        path.write_text("")
        return f"\nwith open({str(path)!r}, 'a') as counted:\n    counted.write('x')\n", path

    def test_a_source_distribution(self, desk: Desk, counting: tuple[str, Path]) -> None:
        """A changed request takes it by its hash; another archive needs consent anew."""
        backend, runs = counting
        desk.sdist("reader", dynamic=True, dependencies=["plain"], backend=backend)
        build_wheel(desk.wheels, "other", "1.0")
        desk.lock("reader", "--allow-source", "reader")
        seen = runs.read_text()
        desk.lock("reader", "other")
        desk.lock("reader", "-U")
        assert desk.entry("reader")["dependencies"] == [{"name": "plain"}]
        assert runs.read_text() == seen
        desk.lock("reader", "other", "--no-cache-dir", code=3)
        desk.sdist("reader", dynamic=True, backend=f"{backend}# another\n")
        result = desk.lock("reader", "other", code=3)
        assert "add --allow-source reader" in result.err
        assert runs.read_text() == seen

    def test_consent_to_install(self, desk: Desk, counting: tuple[str, Path]) -> None:
        """To build it is another question, which known metadata does not answer."""
        backend, runs = counting
        desk.sdist("reader", dynamic=True, backend=backend)
        desk.lock("reader", "--allow-source", "reader")
        seen = runs.read_text()
        assert "--allow-source reader" in desk.sync(code=3).err
        place = ("-i", desk.index.url, "--target", desk.target)
        result = desk.run("install", *place, "reader", code=3)
        assert "known only to the build backend" not in result.err
        assert runs.read_text() == seen

    def test_a_repository(self, desk: Desk, counting: tuple[str, Path]) -> None:
        """The same commit is not asked again."""
        backend, runs = counting
        made = desk.folder / "repo"
        folder = write_project(made, "demo", dependencies=["plain"], dynamic=True, backend=backend)
        commit_all(folder)
        desk.lock(f"git+{folder.as_uri()}@main")
        seen = runs.read_text()
        assert seen
        desk.lock(f"git+{folder.as_uri()}@main", "plain")
        assert desk.entry("demo")["dependencies"] == [{"name": "plain"}]
        assert runs.read_text() == seen

    def test_a_folder(self, desk: Desk, counting: tuple[str, Path]) -> None:
        """A folder is asked again once any file of it has changed."""
        backend, runs = counting
        made = desk.folder / "demo"
        folder = write_project(made, "demo", dependencies=["plain"], dynamic=True, backend=backend)
        (made / "plain.txt").write_text("one")
        desk.lock(folder)
        seen = runs.read_text()
        desk.lock(folder, "plain")
        assert runs.read_text() == seen
        (made / "plain.txt").write_text("three")
        desk.lock(folder)
        assert runs.read_text() != seen

    def test_a_folder_in_a_repository(self, desk: Desk, counting: tuple[str, Path]) -> None:
        """A tag is a change: backends make versions of it."""
        backend, runs = counting
        folder = write_project(desk.folder / "demo", "demo", dynamic=True, backend=backend)
        commit_all(folder)
        desk.lock(folder)
        seen = runs.read_text()
        desk.lock(folder, "plain")
        assert runs.read_text() == seen
        commit_all(folder, tag="v2")
        desk.lock(folder)
        assert runs.read_text() != seen


class TestNamed:
    """Folders, archives and repositories that are named."""

    def test_a_folder(self, desk: Desk) -> None:
        """It has a path from the lock and no version, and is built when the lock is synced."""
        write_project(desk.folder / "demo", "demo", dependencies=["plain"], backend=POISONED)
        assert "+ demo\n" in desk.lock(desk.folder / "demo").out
        entry = desk.entry("demo")
        assert entry["directory"] == {"path": "demo"}
        assert "version" not in entry
        write_project(desk.folder / "demo", "demo", dependencies=["plain"])
        result = desk.sync(code=3)
        assert "demo 1.0 must be built from source" in result.err
        assert ": requested" in result.err
        assert "--allow-source demo, which runs the code in that folder" in result.err
        assert "uv" not in result.err
        desk.sync("--allow-source", "demo")
        assert desk.installed() == {"demo": "1.0", "plain": "1.0"}

    def test_a_version_that_only_a_build_shows(self, desk: Desk) -> None:
        """Until a folder is built, no version is made up for it."""
        folder = write_project(desk.folder / "demo", "demo", dependencies=["plain"], dynamic=True)
        desk.lock(folder)
        assert "error: demo must be built from source" in desk.sync(code=3).err
        planned = desk.sync("--allow-source", "demo", "--dry-run").out
        assert [row.split()[:2] for row in planned.splitlines() if row.startswith("demo")] == [
            ["demo", "local"]
        ]

    def test_an_editable_folder(self, desk: Desk) -> None:
        """It is used itself, and stays where the next sync finds it in its place."""
        folder = write_project(desk.folder / "demo", "demo")
        desk.lock("-e", folder)
        assert desk.entry("demo")["directory"] == {"path": "demo", "editable": True}
        desk.sync("--allow-source", "demo")
        assert list(desk.target.glob("__editable__*.pth"))
        assert "matches the lock" in desk.sync().out

    def test_a_changed_project(self, desk: Desk) -> None:
        """A lock is out of date once a project that it names needs something else."""
        build_wheel(desk.wheels, "other", "1.0")
        folder = write_project(desk.folder / "demo", "demo", dependencies=["plain"])
        desk.lock(folder)
        desk.lock(folder, "--check")
        write_project(folder, "demo", dependencies=["plain", "other"])
        result = desk.lock(folder, "--check", code=31)
        assert "+ other 1.0" in result.err

    def test_dynamic(self, desk: Desk) -> None:
        """Whoever names a project agrees that its backend is asked what it needs."""
        folder = write_project(desk.folder / "demo", "demo", dependencies=["plain"], dynamic=True)
        desk.lock(folder)
        assert desk.entry("demo")["dependencies"] == [{"name": "plain"}]
        assert desk.entry("plain")["version"] == "1.0"

    def test_metadata_by_building_only(self, desk: Desk) -> None:
        """A backend that must build to tell its metadata is asked that way; nothing is lost."""
        without = "\ndel prepare_metadata_for_build_wheel, prepare_metadata_for_build_editable\n"
        folder = write_project(
            desk.folder / "demo", "demo", dependencies=["plain"], dynamic=True, backend=without
        )
        desk.lock(folder, "--platform", "windows-x86_64")
        assert desk.entry("demo")["directory"] == {"path": "demo"}
        assert "marker" not in desk.entry("demo")

    def test_an_archive(self, desk: Desk) -> None:
        """It is locked with its hash; another archive in its place is refused."""
        made = write_project(desk.folder / "projects" / "demo", "demo")
        path = write_sdist(desk.folder, made, "demo")
        desk.lock(path)
        archive = desk.entry("demo")["archive"]
        assert archive["path"] == "demo-1.0.tar.gz"
        assert archive["hashes"].keys() == {"sha256"}
        desk.sync("--allow-source", "demo")
        assert "matches the lock" in desk.sync().out
        shutil.rmtree(desk.target)
        write_project(made, "demo", backend="\n# another\n")
        write_sdist(desk.folder, made, "demo")
        assert "demo-1.0.tar.gz" in desk.sync("--allow-source", "demo", code=4).err

    def test_a_folder_that_is_gone(self, desk: Desk) -> None:
        """A lock whose folder is not there any more is a clear error."""
        folder = write_project(desk.folder / "demo", "demo")
        desk.lock(folder)
        shutil.rmtree(folder)
        result = desk.sync("--allow-source", "demo", code=1)
        assert str(folder) in result.err
        assert "named in the lock" in result.err
        assert not desk.target.exists()


class TestRepositories:
    """Projects in repositories."""

    def test_a_branch(self, desk: Desk) -> None:
        """The commit is locked, and it is what is built though the branch has moved."""
        folder = write_project(desk.folder / "repo", "demo", dependencies=["plain"])
        commit = commit_all(folder)
        desk.lock(f"demo @ git+{folder.as_uri()}@main")
        entry = desk.entry("demo")
        assert entry["vcs"] == {
            "type": "git",
            "path": "repo",
            "requested-revision": "main",
            "commit-id": commit,
        }
        write_project(folder, "demo", "2.0")
        commit_all(folder)
        desk.sync("--allow-source", "demo")
        assert desk.installed() == {"demo": "1.0", "plain": "1.0"}
        assert "matches the lock" in desk.sync().out

    def test_the_locked_commit_stays(self, desk: Desk) -> None:
        """A branch that has moved changes nothing until an upgrade is asked for."""
        folder = write_project(desk.folder / "repo", "demo")
        first = commit_all(folder)
        source = f"git+{folder.as_uri()}@main"
        desk.lock(source)
        write_project(folder, "demo", "2.0")
        second = commit_all(folder)
        desk.lock(source, "--check")
        desk.lock(source, "plain")
        assert desk.entry("demo")["vcs"]["commit-id"] == first
        desk.lock(source, "plain", "-P", "demo")
        assert desk.entry("demo")["vcs"]["commit-id"] == second
        assert desk.entry("demo")["vcs"]["requested-revision"] == "main"

    def test_a_subdirectory(self, desk: Desk) -> None:
        """A project in a folder of a repository is found there again."""
        write_project(desk.folder / "repo" / "python", "demo")
        commit_all(desk.folder / "repo")
        desk.lock(f"git+{(desk.folder / 'repo').as_uri()}#subdirectory=python")
        assert desk.entry("demo")["vcs"]["subdirectory"] == "python"
        desk.sync("--allow-source", "demo")
        assert desk.installed() == {"demo": "1.0"}

    def test_a_revision_that_is_gone(self, desk: Desk) -> None:
        """It is an error that names the repository, and no lock is written."""
        folder = write_project(desk.folder / "repo", "demo")
        commit_all(folder)
        result = desk.lock(f"git+{folder.as_uri()}@nowhere", code=5)
        assert "checkout-failed" in result.err
        assert not desk.path.exists()


class TestTables:
    """Sources in the tables of a project."""

    @pytest.fixture
    def project(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Give a project that needs a member of its own repository, which an index has too."""
        build_wheel(desk.wheels, "member", "9.0")
        write_project(desk.folder / "app" / "member", "member", dependencies=["plain"])
        monkeypatch.chdir(desk.folder / "app")
        desk.path = desk.folder / "app" / "pylock.toml"
        return desk.folder / "app" / "pyproject.toml"

    @staticmethod
    def write(project: Path, sources: str, *, table: str = "tool.uv.sources") -> None:
        """Write a project with sources."""
        project.write_text(
            '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.11"\n'
            f'dependencies = ["member"]\n[{table}]\n{sources}\n'
        )

    @pytest.mark.parametrize("table", ["tool.uv.sources", "tool.wheelfit.sources"])
    def test_a_path(self, desk: Desk, project: Path, table: str) -> None:
        """A dependency with a path comes from there and from no index."""
        self.write(project, 'member = { path = "member", editable = true }', table=table)
        desk.lock("--python-version", "3.11")
        assert desk.entry("member")["directory"] == {"path": "member", "editable": True}
        desk.sync("--allow-source", "member")
        assert desk.installed() == {"member": "1.0", "plain": "1.0"}

    def test_a_repository(self, desk: Desk, project: Path) -> None:
        """A dependency with a repository is locked at the commit of its tag."""
        commit = commit_all(desk.folder / "app" / "member", tag="v1")
        address = (desk.folder / "app" / "member").as_uri()
        self.write(project, f'member = {{ git = "{address}", tag = "v1" }}')
        desk.lock("--python-version", "3.11")
        assert desk.entry("member")["vcs"]["commit-id"] == commit
        assert desk.entry("member")["vcs"]["requested-revision"] == "v1"

    def test_a_direct_reference(self, desk: Desk, project: Path) -> None:
        """A URL in the requirement itself means the same."""
        member = (desk.folder / "app" / "member").as_uri()
        project.write_text(
            f'[project]\nname = "app"\nversion = "1"\ndependencies = ["member @ {member}"]\n'
        )
        desk.lock("--python-version", "3.11")
        assert desk.entry("member")["directory"] == {"path": "member"}

    def test_a_marker(self, desk: Desk, project: Path) -> None:
        """A source with a marker counts where that holds; elsewhere the index does."""
        self.write(project, "member = [{ path = 'member', marker = \"sys_platform == 'linux'\" }]")
        desk.lock("--python-version", "3.11", "--platform", "windows-x86_64")
        packages = tomllib.loads(desk.path.read_text())["packages"]
        found = {
            package["marker"]: package.get("directory") or package["version"]
            for package in packages
            if package["name"] == "member"
        }
        assert found == {
            "sys_platform == 'linux'": {"path": "member"},
            "sys_platform == 'win32'": "9.0",
        }

    def test_no_longer_there(self, desk: Desk, project: Path) -> None:
        """A path that leads nowhere is an error that names it."""
        self.write(project, 'member = { path = "gone" }')
        result = desk.lock("--python-version", "3.11", code=1)
        assert str(desk.folder / "app" / "gone") in result.err

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("{ workspace = true }", "workspaces are not supported"),
            ('{ path = "a", git = "https://b" }', "has both path and git"),
            ('{ git = "https://b", tag = "1", rev = "2" }', "more than one of rev, tag and branch"),
            ('{ path = "a", edtable = true }', "edtable is an unknown key"),
            ("{ path = 1 }", "path must be a string"),
            ('{ path = "a", marker = "nonsense" }', "is not a marker"),
        ],
    )
    def test_faults(self, source: str, words: str, desk: Desk, project: Path) -> None:
        """What cannot be understood is an error with its line, and nothing is locked."""
        self.write(project, f"member = {source}")
        result = desk.lock("--python-version", "3.11", code=1)
        assert words in result.err
        assert "tool.uv.sources.member" in result.err
        assert not desk.path.exists()
