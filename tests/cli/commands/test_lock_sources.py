"""``wheelfit lock`` and ``sync`` of source distributions."""

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


class LockFolder:
    """Locks of one index, and a folder to install into."""

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
        """Install from the lock."""
        place = ("-i", self.index.url, "--target", self.target)
        return self.run("sync", *place, self.path, *words, code=code)

    def sdist(self, name: str, version: str = "1.0", **more: Any) -> Path:
        """Add a source distribution to the index."""
        made = write_project(self.folder / "projects" / f"{name}-{version}", name, version, **more)
        return write_sdist(self.wheels, made, name, version)

    def entry(self, name: str) -> dict[str, Any]:
        """Return the only entry of a package."""
        packages = tomllib.loads(self.path.read_text())["packages"]
        (entry,) = (package for package in packages if package["name"] == name)
        return dict(entry)

    def installed(self) -> dict[str, str]:
        """Return the installed versions by name."""
        packages = self.run("list", "--target", self.target, "--json").object["packages"]
        return {package["name"]: package["version"] for package in packages}


@pytest.fixture
def lock_folder(run: Runner, tmp_path: Path) -> Iterator[LockFolder]:
    """Yield a lock folder with an index of a plain wheel."""
    with RecordingIndex(tmp_path / "wheels") as index:
        made = LockFolder(run, tmp_path, index)
        build_wheel(made.wheels, "plain", "1.0")
        yield made


class TestSourceDistributions:
    """Source distributions of an index."""

    def test_unchanged_lock_without_consent(self, lock_folder: LockFolder) -> None:
        """A lock made with consent stays valid without it, and nothing is executed."""
        lock_folder.sdist("reader", dynamic=True, dependencies=["plain"])
        lock_folder.lock("reader", "--allow-source", "reader")
        before = lock_folder.path.read_bytes()
        assert "is up to date" in lock_folder.lock("reader", "--check").out
        lock_folder.lock("reader")
        assert lock_folder.path.read_bytes() == before
        lock_folder.lock("reader", "--allow-source", "never", code=3)

    def test_static_metadata(self, lock_folder: LockFolder) -> None:
        """An archive with static metadata is locked by hash, without executing its code."""
        path = lock_folder.sdist("reader", dependencies=["plain"], backend=POISONED)
        result = lock_folder.lock("reader")
        entry = lock_folder.entry("reader")
        assert entry["version"] == "1.0"
        assert "wheels" not in entry
        assert entry["sdist"]["name"] == path.name
        assert entry["sdist"]["url"].endswith(path.name)
        assert entry["sdist"]["hashes"].keys() == {"sha256"}
        assert entry["dependencies"] == [{"name": "plain"}]
        assert "wheelfit sync --allow-source reader" in result.err

    def test_sync_needs_consent(self, lock_folder: LockFolder) -> None:
        """All packages to build are named, and nothing is installed without consent."""
        lock_folder.sdist("reader", dependencies=["plain"])
        lock_folder.sdist("writer")
        build_wheel(lock_folder.wheels, "app", "1.0", requires=["reader", "writer"])
        lock_folder.lock("app")
        result = lock_folder.sync(code=3)
        assert "reader 1.0 and writer 1.0 must be built from source" in result.err
        assert "--allow-source reader --allow-source writer" in result.err
        assert "--only-binary" not in result.err
        assert not lock_folder.target.exists()
        lock_folder.sync("--allow-source", "reader", "--allow-source", "writer")
        assert lock_folder.installed() == {
            "app": "1.0",
            "plain": "1.0",
            "reader": "1.0",
            "writer": "1.0",
        }
        assert "matches the lock" in lock_folder.sync().out

    def test_tree(self, lock_folder: LockFolder) -> None:
        """`tree` lists source distributions without building them."""
        lock_folder.sdist("reader", dependencies=["plain"], backend=POISONED)
        lock_folder.lock("reader")
        result = lock_folder.run("tree", "--for", "cpu-x86_64-v3", "--json", lock_folder.path)
        assert {package["name"] for package in result.object["packages"]} == {"reader", "plain"}

    def test_dynamic_metadata(self, lock_folder: LockFolder) -> None:
        """Dynamic metadata needs consent to lock."""
        lock_folder.sdist("reader", dependencies=["plain"], dynamic=True)
        result = lock_folder.lock("reader", code=3)
        assert "reader 1.0 must be built from source" in result.err
        assert "add --allow-source reader" in result.err
        assert not lock_folder.path.exists()
        lock_folder.lock("reader", "--allow-source", "reader")
        assert lock_folder.entry("reader")["dependencies"] == [{"name": "plain"}]

    def test_wheel_for_one_platform(self, lock_folder: LockFolder) -> None:
        """A release with a wheel for one platform is locked with its archive for the others."""
        build_wheel(lock_folder.wheels, "reader", "1.0", tag="py3-none-win_amd64")
        lock_folder.sdist("reader")
        lock_folder.lock("reader", "--platform", "windows-x86_64")
        entry = lock_folder.entry("reader")
        assert [wheel["name"] for wheel in entry["wheels"]] == ["reader-1.0-py3-none-win_amd64.whl"]
        assert entry["sdist"]["name"] == "reader-1.0.tar.gz"

    def test_up_to_date(self, lock_folder: LockFolder) -> None:
        """The lock is up to date until the release gets a new file."""
        lock_folder.sdist("reader")
        lock_folder.lock("reader")
        assert "up to date" in lock_folder.lock("reader", "--check").out
        build_wheel(lock_folder.wheels, "reader", "1.0")
        lock_folder.lock("reader", "--check", code=31)

    def test_python_without_wheels(self, lock_folder: LockFolder) -> None:
        """A Python that would need a build is omitted if others do not."""
        build_wheel(lock_folder.wheels, "reader", "1.0", tag="cp311-cp311-linux_x86_64")
        lock_folder.sdist("reader", dynamic=True)
        project = lock_folder.folder / "pyproject.toml"
        project.write_text(
            '[project]\nname = "app"\nversion = "1"\n'
            'requires-python = ">=3.11,<3.13"\ndependencies = ["reader"]\n'
        )
        place = ("lock", "-i", lock_folder.index.url, "-o", lock_folder.path, "--project", project)
        result = lock_folder.run(*place)
        assert "left out: reader 1.0 must be built from source" in result.err
        assert "--allow-source reader locks for them" in result.err
        assert tomllib.loads(lock_folder.path.read_text())["requires-python"] == ">=3.11,<3.12"
        lock_folder.run(*place, "--allow-source", "reader")
        assert "sdist" in lock_folder.entry("reader")

    def test_every_python_needs_a_build(self, lock_folder: LockFolder) -> None:
        """A package that must be built for every Python is named in the error."""
        for tag in ("cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"):
            build_wheel(lock_folder.wheels, "fast", "1.0", tag=tag)
        lock_folder.sdist("fast", dynamic=True)
        lock_folder.sdist("reader", dynamic=True)
        build_wheel(lock_folder.wheels, "app", "2.0", requires=["reader", "fast"])
        project = lock_folder.folder / "pyproject.toml"
        project.write_text(
            '[project]\nname = "demo"\nversion = "1"\n'
            'requires-python = ">=3.11"\ndependencies = ["app"]\n'
        )
        place = ("lock", "-i", lock_folder.index.url, "-o", lock_folder.path, "--project", project)
        result = lock_folder.run(*place, code=3)
        assert "error: reader 1.0 must be built from source" in result.err
        assert "where: linux-x86_64, Python 3.11 and 3.12" in result.err
        assert "reader-1.0.tar.gz: app 2.0 needs it" in result.err
        assert "hint: add --allow-source reader," in result.err
        lock_folder.run(*place, "--allow-source", "reader")
        assert tomllib.loads(lock_folder.path.read_text())["requires-python"] == ">=3.11,<3.13"

    def test_never(self, lock_folder: LockFolder) -> None:
        """With `never` a source distribution satisfies no requirement."""
        lock_folder.sdist("reader")
        result = lock_folder.lock("reader", "--allow-source", "never", code=3)
        assert "reader 1.0 must be built from source" in result.err

    def test_only_binary(self, lock_folder: LockFolder) -> None:
        """``--only-binary`` locks an older release with a wheel."""
        build_wheel(lock_folder.wheels, "reader", "0.9")
        lock_folder.sdist("reader")
        lock_folder.lock("reader", "--only-binary", "reader")
        assert lock_folder.entry("reader")["version"] == "0.9"

    def test_changed_archive(self, lock_folder: LockFolder) -> None:
        """An archive with another hash than the locked one is not built."""
        path = lock_folder.sdist("reader")
        lock_folder.lock("reader")
        lock_folder.sdist("reader", backend="\n# another\n")
        result = lock_folder.sync("--allow-source", "reader", "--no-cache-dir", code=4)
        assert path.name in result.err
        assert not lock_folder.target.exists()


class TestCachedMetadata:
    """Backend metadata that is cached for an unchanged source."""

    @pytest.fixture
    def counting(self, tmp_path: Path) -> tuple[str, Path]:
        """Return backend code that counts its runs, and the file with the count."""
        path = tmp_path / "runs"
        path.write_text("")
        return f"\nwith open({str(path)!r}, 'a') as counted:\n    counted.write('x')\n", path

    def test_source_distribution(self, lock_folder: LockFolder, counting: tuple[str, Path]) -> None:
        """An archive is identified by its hash; another one needs consent."""
        backend, runs = counting
        lock_folder.sdist("reader", dynamic=True, dependencies=["plain"], backend=backend)
        build_wheel(lock_folder.wheels, "other", "1.0")
        lock_folder.lock("reader", "--allow-source", "reader")
        seen = runs.read_text()
        lock_folder.lock("reader", "other")
        lock_folder.lock("reader", "-U")
        assert lock_folder.entry("reader")["dependencies"] == [{"name": "plain"}]
        assert runs.read_text() == seen
        lock_folder.lock("reader", "other", "--no-cache-dir", code=3)
        lock_folder.sdist("reader", dynamic=True, backend=f"{backend}# another\n")
        result = lock_folder.lock("reader", "other", code=3)
        assert "add --allow-source reader" in result.err
        assert runs.read_text() == seen

    def test_installing_needs_consent(
        self, lock_folder: LockFolder, counting: tuple[str, Path]
    ) -> None:
        """Cached metadata is not consent to build."""
        backend, runs = counting
        lock_folder.sdist("reader", dynamic=True, backend=backend)
        lock_folder.lock("reader", "--allow-source", "reader")
        seen = runs.read_text()
        assert "--allow-source reader" in lock_folder.sync(code=3).err
        place = ("-i", lock_folder.index.url, "--target", lock_folder.target)
        result = lock_folder.run("install", *place, "reader", code=3)
        assert "known only to the build backend" not in result.err
        assert runs.read_text() == seen

    def test_repository(self, lock_folder: LockFolder, counting: tuple[str, Path]) -> None:
        """The backend runs once per commit."""
        backend, runs = counting
        made = lock_folder.folder / "repo"
        folder = write_project(made, "demo", dependencies=["plain"], dynamic=True, backend=backend)
        commit_all(folder)
        lock_folder.lock(f"git+{folder.as_uri()}@main")
        seen = runs.read_text()
        assert seen
        lock_folder.lock(f"git+{folder.as_uri()}@main", "plain")
        assert lock_folder.entry("demo")["dependencies"] == [{"name": "plain"}]
        assert runs.read_text() == seen

    def test_folder(self, lock_folder: LockFolder, counting: tuple[str, Path]) -> None:
        """The backend runs again after any file of the folder has changed."""
        backend, runs = counting
        made = lock_folder.folder / "demo"
        folder = write_project(made, "demo", dependencies=["plain"], dynamic=True, backend=backend)
        (made / "plain.txt").write_text("one")
        lock_folder.lock(folder)
        seen = runs.read_text()
        lock_folder.lock(folder, "plain")
        assert runs.read_text() == seen
        (made / "plain.txt").write_text("three")
        lock_folder.lock(folder)
        assert runs.read_text() != seen

    def test_folder_in_a_repository(
        self, lock_folder: LockFolder, counting: tuple[str, Path]
    ) -> None:
        """A new tag counts as a change, as versions may come from tags."""
        backend, runs = counting
        folder = write_project(lock_folder.folder / "demo", "demo", dynamic=True, backend=backend)
        commit_all(folder)
        lock_folder.lock(folder)
        seen = runs.read_text()
        lock_folder.lock(folder, "plain")
        assert runs.read_text() == seen
        commit_all(folder, tag="v2")
        lock_folder.lock(folder)
        assert runs.read_text() != seen


class TestNamedSources:
    """Folders and archives on the command line."""

    def test_folder(self, lock_folder: LockFolder) -> None:
        """A folder is locked by relative path without a version, and built by sync."""
        write_project(lock_folder.folder / "demo", "demo", dependencies=["plain"], backend=POISONED)
        assert "+ demo\n" in lock_folder.lock(lock_folder.folder / "demo").out
        entry = lock_folder.entry("demo")
        assert entry["directory"] == {"path": "demo"}
        assert "version" not in entry
        write_project(lock_folder.folder / "demo", "demo", dependencies=["plain"])
        result = lock_folder.sync(code=3)
        assert "demo 1.0 must be built from source" in result.err
        assert ": requested" in result.err
        assert "--allow-source demo, which runs the code in that folder" in result.err
        assert "uv" not in result.err
        lock_folder.sync("--allow-source", "demo")
        assert lock_folder.installed() == {"demo": "1.0", "plain": "1.0"}

    def test_unknown_version(self, lock_folder: LockFolder) -> None:
        """A dynamic version is unknown until the folder is built."""
        folder = write_project(
            lock_folder.folder / "demo", "demo", dependencies=["plain"], dynamic=True
        )
        lock_folder.lock(folder)
        assert "error: demo must be built from source" in lock_folder.sync(code=3).err
        planned = lock_folder.sync("--allow-source", "demo", "--dry-run").out
        assert [row.split()[:2] for row in planned.splitlines() if row.startswith("demo")] == [
            ["demo", "local"]
        ]

    def test_editable_folder(self, lock_folder: LockFolder) -> None:
        """An editable folder is linked, and the next sync keeps it."""
        folder = write_project(lock_folder.folder / "demo", "demo")
        lock_folder.lock("-e", folder)
        assert lock_folder.entry("demo")["directory"] == {"path": "demo", "editable": True}
        lock_folder.sync("--allow-source", "demo")
        assert list(lock_folder.target.glob("__editable__*.pth"))
        assert "matches the lock" in lock_folder.sync().out

    def test_changed_dependencies(self, lock_folder: LockFolder) -> None:
        """Changed dependencies of a folder make the lock outdated."""
        build_wheel(lock_folder.wheels, "other", "1.0")
        folder = write_project(lock_folder.folder / "demo", "demo", dependencies=["plain"])
        lock_folder.lock(folder)
        lock_folder.lock(folder, "--check")
        write_project(folder, "demo", dependencies=["plain", "other"])
        result = lock_folder.lock(folder, "--check", code=31)
        assert "+ other 1.0" in result.err

    def test_folder_with_dynamic_metadata(self, lock_folder: LockFolder) -> None:
        """Naming a folder is consent to run its backend for metadata."""
        folder = write_project(
            lock_folder.folder / "demo", "demo", dependencies=["plain"], dynamic=True
        )
        lock_folder.lock(folder)
        assert lock_folder.entry("demo")["dependencies"] == [{"name": "plain"}]
        assert lock_folder.entry("plain")["version"] == "1.0"

    def test_backend_without_a_metadata_hook(self, lock_folder: LockFolder) -> None:
        """A backend without a metadata hook is asked by building."""
        without = "\ndel prepare_metadata_for_build_wheel, prepare_metadata_for_build_editable\n"
        folder = write_project(
            lock_folder.folder / "demo",
            "demo",
            dependencies=["plain"],
            dynamic=True,
            backend=without,
        )
        lock_folder.lock(folder, "--platform", "windows-x86_64")
        assert lock_folder.entry("demo")["directory"] == {"path": "demo"}
        assert "marker" not in lock_folder.entry("demo")

    def test_archive(self, lock_folder: LockFolder) -> None:
        """An archive is locked with its hash; another one is refused."""
        made = write_project(lock_folder.folder / "projects" / "demo", "demo")
        path = write_sdist(lock_folder.folder, made, "demo")
        lock_folder.lock(path)
        archive = lock_folder.entry("demo")["archive"]
        assert archive["path"] == "demo-1.0.tar.gz"
        assert archive["hashes"].keys() == {"sha256"}
        lock_folder.sync("--allow-source", "demo")
        assert "matches the lock" in lock_folder.sync().out
        shutil.rmtree(lock_folder.target)
        write_project(made, "demo", backend="\n# another\n")
        write_sdist(lock_folder.folder, made, "demo")
        assert "demo-1.0.tar.gz" in lock_folder.sync("--allow-source", "demo", code=4).err

    def test_deleted_folder(self, lock_folder: LockFolder) -> None:
        """A deleted folder is an error that names it."""
        folder = write_project(lock_folder.folder / "demo", "demo")
        lock_folder.lock(folder)
        shutil.rmtree(folder)
        result = lock_folder.sync("--allow-source", "demo", code=1)
        assert str(folder) in result.err
        assert "named in the lock" in result.err
        assert not lock_folder.target.exists()


class TestRepositories:
    """Projects in repositories."""

    def test_branch(self, lock_folder: LockFolder) -> None:
        """The commit of a branch is locked, and built after the branch has moved."""
        folder = write_project(lock_folder.folder / "repo", "demo", dependencies=["plain"])
        commit = commit_all(folder)
        lock_folder.lock(f"demo @ git+{folder.as_uri()}@main")
        entry = lock_folder.entry("demo")
        assert entry["vcs"] == {
            "type": "git",
            "path": "repo",
            "requested-revision": "main",
            "commit-id": commit,
        }
        write_project(folder, "demo", "2.0")
        commit_all(folder)
        lock_folder.sync("--allow-source", "demo")
        assert lock_folder.installed() == {"demo": "1.0", "plain": "1.0"}
        assert "matches the lock" in lock_folder.sync().out

    def test_locked_commit(self, lock_folder: LockFolder) -> None:
        """The locked commit is kept until an upgrade."""
        folder = write_project(lock_folder.folder / "repo", "demo")
        first = commit_all(folder)
        source = f"git+{folder.as_uri()}@main"
        lock_folder.lock(source)
        write_project(folder, "demo", "2.0")
        second = commit_all(folder)
        lock_folder.lock(source, "--check")
        lock_folder.lock(source, "plain")
        assert lock_folder.entry("demo")["vcs"]["commit-id"] == first
        lock_folder.lock(source, "plain", "-P", "demo")
        assert lock_folder.entry("demo")["vcs"]["commit-id"] == second
        assert lock_folder.entry("demo")["vcs"]["requested-revision"] == "main"

    def test_subdirectory(self, lock_folder: LockFolder) -> None:
        """The subdirectory of a project is locked."""
        write_project(lock_folder.folder / "repo" / "python", "demo")
        commit_all(lock_folder.folder / "repo")
        lock_folder.lock(f"git+{(lock_folder.folder / 'repo').as_uri()}#subdirectory=python")
        assert lock_folder.entry("demo")["vcs"]["subdirectory"] == "python"
        lock_folder.sync("--allow-source", "demo")
        assert lock_folder.installed() == {"demo": "1.0"}

    def test_missing_revision(self, lock_folder: LockFolder) -> None:
        """A missing revision is an error, and no lock is written."""
        folder = write_project(lock_folder.folder / "repo", "demo")
        commit_all(folder)
        result = lock_folder.lock(f"git+{folder.as_uri()}@nowhere", code=5)
        assert "checkout-failed" in result.err
        assert not lock_folder.path.exists()


class TestTables:
    """The tables of sources in pyproject.toml."""

    @pytest.fixture
    def project(self, lock_folder: LockFolder, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Return the pyproject.toml of a project with a folder for a dependency."""
        build_wheel(lock_folder.wheels, "member", "9.0")
        write_project(lock_folder.folder / "app" / "member", "member", dependencies=["plain"])
        monkeypatch.chdir(lock_folder.folder / "app")
        lock_folder.path = lock_folder.folder / "app" / "pylock.toml"
        return lock_folder.folder / "app" / "pyproject.toml"

    @staticmethod
    def write(project: Path, sources: str, *, table: str = "tool.uv.sources") -> None:
        """Write a project with a table of sources."""
        project.write_text(
            '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.11"\n'
            f'dependencies = ["member"]\n[{table}]\n{sources}\n'
        )

    @pytest.mark.parametrize("table", ["tool.uv.sources", "tool.wheelfit.sources"])
    def test_path_source(self, lock_folder: LockFolder, project: Path, table: str) -> None:
        """A dependency with a path comes from the folder, not from an index."""
        self.write(project, 'member = { path = "member", editable = true }', table=table)
        lock_folder.lock("--python-version", "3.11")
        assert lock_folder.entry("member")["directory"] == {"path": "member", "editable": True}
        lock_folder.sync("--allow-source", "member")
        assert lock_folder.installed() == {"member": "1.0", "plain": "1.0"}

    def test_repository_source(self, lock_folder: LockFolder, project: Path) -> None:
        """A dependency with a repository is locked at the commit of its tag."""
        commit = commit_all(lock_folder.folder / "app" / "member", tag="v1")
        address = (lock_folder.folder / "app" / "member").as_uri()
        self.write(project, f'member = {{ git = "{address}", tag = "v1" }}')
        lock_folder.lock("--python-version", "3.11")
        assert lock_folder.entry("member")["vcs"]["commit-id"] == commit
        assert lock_folder.entry("member")["vcs"]["requested-revision"] == "v1"

    def test_url_requirement(self, lock_folder: LockFolder, project: Path) -> None:
        """A URL in the requirement has the same effect."""
        member = (lock_folder.folder / "app" / "member").as_uri()
        project.write_text(
            f'[project]\nname = "app"\nversion = "1"\ndependencies = ["member @ {member}"]\n'
        )
        lock_folder.lock("--python-version", "3.11")
        assert lock_folder.entry("member")["directory"] == {"path": "member"}

    def test_source_with_a_marker(self, lock_folder: LockFolder, project: Path) -> None:
        """A source applies where its marker matches; elsewhere the index does."""
        self.write(project, "member = [{ path = 'member', marker = \"sys_platform == 'linux'\" }]")
        lock_folder.lock("--python-version", "3.11", "--platform", "windows-x86_64")
        packages = tomllib.loads(lock_folder.path.read_text())["packages"]
        found = {
            package["marker"]: package.get("directory") or package["version"]
            for package in packages
            if package["name"] == "member"
        }
        assert found == {
            "sys_platform == 'linux'": {"path": "member"},
            "sys_platform == 'win32'": "9.0",
        }

    def test_missing_path(self, lock_folder: LockFolder, project: Path) -> None:
        """A missing path is an error that names it."""
        self.write(project, 'member = { path = "gone" }')
        result = lock_folder.lock("--python-version", "3.11", code=1)
        assert str(lock_folder.folder / "app" / "gone") in result.err

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
    def test_invalid_sources(
        self, source: str, words: str, lock_folder: LockFolder, project: Path
    ) -> None:
        """An invalid source is an error with its place, and nothing is locked."""
        self.write(project, f"member = {source}")
        result = lock_folder.lock("--python-version", "3.11", code=1)
        assert words in result.err
        assert "tool.uv.sources.member" in result.err
        assert not lock_folder.path.exists()
