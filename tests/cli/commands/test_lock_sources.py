"""``wheelfit lock`` and ``sync`` of source distributions."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner
from cli.workplace import POISONED, Workplace
from projects.writing import commit_all, write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


@pytest.fixture
def setup(run: Runner, tmp_path: Path) -> Iterator[Workplace]:
    """Yield a lock folder with an index of a plain wheel."""
    with RecordingIndex(tmp_path / "wheels") as index:
        build_wheel(tmp_path / "wheels", "plain", "1.0")
        yield Workplace(run, tmp_path, index)


class TestSourceDistributions:
    """Source distributions of an index."""

    def test_unchanged_lock_without_consent(self, setup: Workplace) -> None:
        """A lock made with consent stays valid without it, and nothing is executed."""
        setup.sdist("reader", dynamic=True, dependencies=["plain"])
        setup.lock("reader", "--allow-source", "reader")
        before = setup.path.read_bytes()
        assert "is up to date" in setup.lock("reader", "--check").out
        setup.lock("reader")
        assert setup.path.read_bytes() == before
        setup.lock("reader", "--allow-source", "never", code=3)

    def test_static_metadata(self, setup: Workplace) -> None:
        """An archive with static metadata is locked by hash, without executing its code."""
        path = setup.sdist("reader", dependencies=["plain"], backend=POISONED)
        result = setup.lock("reader")
        entry = setup.entry("reader")
        assert entry["version"] == "1.0"
        assert "wheels" not in entry
        assert entry["sdist"]["name"] == path.name
        assert entry["sdist"]["url"].endswith(path.name)
        assert entry["sdist"]["hashes"].keys() == {"sha256"}
        assert entry["dependencies"] == [{"name": "plain"}]
        assert (
            "reader must be built from source: `wheelfit sync --allow-source reader`" in result.err
        )

    def test_some_wheels(self, setup: Workplace) -> None:
        """The warning of a release with wheels for some machines is about the others."""
        setup.sdist("reader", dependencies=["plain"])
        build_wheel(setup.wheels, "reader", "1.0", tag="cp312-cp312-win_amd64")
        result = setup.lock("reader", "--python-version", "3.12", "--platform", "windows-x86_64")
        assert "reader must be built from source where no locked wheel fits: " in result.err

    def test_sync_needs_consent(self, setup: Workplace) -> None:
        """All packages to build are named, and nothing is installed without consent."""
        setup.sdist("reader", dependencies=["plain"])
        setup.sdist("writer")
        build_wheel(setup.wheels, "app", "1.0", requires=["reader", "writer"])
        setup.lock("app")
        result = setup.sync(code=3)
        assert "reader 1.0 and writer 1.0 must be built from source" in result.err
        assert "--allow-source reader --allow-source writer" in result.err
        assert "--only-binary" not in result.err
        assert not setup.target.exists()
        setup.sync("--allow-source", "reader", "--allow-source", "writer")
        assert setup.versions() == {
            "app": "1.0",
            "plain": "1.0",
            "reader": "1.0",
            "writer": "1.0",
        }
        assert "matches the lock" in setup.sync().out

    def test_tree(self, setup: Workplace) -> None:
        """`tree` lists source distributions without building them."""
        setup.sdist("reader", dependencies=["plain"], backend=POISONED)
        setup.lock("reader")
        result = setup.run("tree", "--for", "cpu-x86_64-v3", "--json", setup.path)
        assert {package["name"] for package in result.object["packages"]} == {"reader", "plain"}

    def test_dynamic_metadata(self, setup: Workplace) -> None:
        """Dynamic metadata needs consent to lock."""
        setup.sdist("reader", dependencies=["plain"], dynamic=True)
        result = setup.lock("reader", code=3)
        assert "reader 1.0 must be built from source" in result.err
        assert "add --allow-source reader" in result.err
        assert not setup.path.exists()
        setup.lock("reader", "--allow-source", "reader")
        assert setup.entry("reader")["dependencies"] == [{"name": "plain"}]

    def test_wheel_for_one_platform(self, setup: Workplace) -> None:
        """A release with a wheel for one platform is locked with its archive for the others."""
        build_wheel(setup.wheels, "reader", "1.0", tag="py3-none-win_amd64")
        setup.sdist("reader")
        setup.lock("reader", "--platform", "windows-x86_64")
        entry = setup.entry("reader")
        assert [wheel["name"] for wheel in entry["wheels"]] == ["reader-1.0-py3-none-win_amd64.whl"]
        assert entry["sdist"]["name"] == "reader-1.0.tar.gz"

    def test_up_to_date(self, setup: Workplace) -> None:
        """The lock is up to date until the release gets a new file."""
        setup.sdist("reader")
        setup.lock("reader")
        assert "up to date" in setup.lock("reader", "--check").out
        build_wheel(setup.wheels, "reader", "1.0")
        setup.lock("reader", "--check", code=31)

    def test_python_without_wheels(self, setup: Workplace) -> None:
        """A Python that would need a build is omitted if others do not."""
        build_wheel(setup.wheels, "reader", "1.0", tag="cp311-cp311-linux_x86_64")
        setup.sdist("reader", dynamic=True)
        project = setup.folder / "pyproject.toml"
        project.write_text(
            '[project]\nname = "app"\nversion = "1"\n'
            'requires-python = ">=3.11,<3.13"\ndependencies = ["reader"]\n'
        )
        place = ("lock", *setup.sources, "-o", setup.path, "--project", project)
        result = setup.run(*place)
        assert "left out: reader 1.0 must be built from source" in result.err
        assert "--allow-source reader locks for them" in result.err
        assert tomllib.loads(setup.path.read_text())["requires-python"] == ">=3.11,<3.12"
        setup.run(*place, "--allow-source", "reader")
        assert "sdist" in setup.entry("reader")

    def test_every_python_needs_a_build(self, setup: Workplace) -> None:
        """A package that must be built for every Python is named in the error."""
        for tag in ("cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"):
            build_wheel(setup.wheels, "fast", "1.0", tag=tag)
        setup.sdist("fast", dynamic=True)
        setup.sdist("reader", dynamic=True)
        build_wheel(setup.wheels, "app", "2.0", requires=["reader", "fast"])
        project = setup.folder / "pyproject.toml"
        project.write_text(
            '[project]\nname = "demo"\nversion = "1"\n'
            'requires-python = ">=3.11"\ndependencies = ["app"]\n'
        )
        place = ("lock", *setup.sources, "-o", setup.path, "--project", project)
        result = setup.run(*place, code=3)
        assert "error: reader 1.0 must be built from source" in result.err
        assert "where: linux-x86_64, Python 3.11 and 3.12" in result.err
        assert "reader-1.0.tar.gz: app 2.0 needs it" in result.err
        assert "hint: add --allow-source reader," in result.err
        setup.run(*place, "--allow-source", "reader")
        assert tomllib.loads(setup.path.read_text())["requires-python"] == ">=3.11,<3.13"

    def test_never(self, setup: Workplace) -> None:
        """With `never` a source distribution satisfies no requirement."""
        setup.sdist("reader")
        result = setup.lock("reader", "--allow-source", "never", code=3)
        assert "reader 1.0 must be built from source" in result.err

    def test_only_binary(self, setup: Workplace) -> None:
        """``--only-binary`` locks an older release with a wheel."""
        build_wheel(setup.wheels, "reader", "0.9")
        setup.sdist("reader")
        setup.lock("reader", "--only-binary", "reader")
        assert setup.entry("reader")["version"] == "0.9"

    def test_changed_archive(self, setup: Workplace) -> None:
        """An archive with another hash than the locked one is not built."""
        path = setup.sdist("reader")
        setup.lock("reader")
        setup.sdist("reader", backend="\n# another\n")
        result = setup.sync("--allow-source", "reader", "--no-cache-dir", code=4)
        assert path.name in result.err
        assert not setup.target.exists()


class TestCachedMetadata:
    """Backend metadata that is cached for an unchanged source."""

    @pytest.fixture
    def counting(self, tmp_path: Path) -> tuple[str, Path]:
        """Return backend code that counts its runs, and the file with the count."""
        path = tmp_path / "runs"
        path.write_text("")
        return f"\nwith open({str(path)!r}, 'a') as counted:\n    counted.write('x')\n", path

    def test_source_distribution(self, setup: Workplace, counting: tuple[str, Path]) -> None:
        """An archive is identified by its hash; another one needs consent."""
        backend, runs = counting
        setup.sdist("reader", dynamic=True, dependencies=["plain"], backend=backend)
        build_wheel(setup.wheels, "other", "1.0")
        setup.lock("reader", "--allow-source", "reader")
        seen = runs.read_text()
        setup.lock("reader", "other")
        setup.lock("reader", "-U")
        assert setup.entry("reader")["dependencies"] == [{"name": "plain"}]
        assert runs.read_text() == seen
        setup.lock("reader", "other", "--no-cache-dir", code=3)
        setup.sdist("reader", dynamic=True, backend=f"{backend}# another\n")
        result = setup.lock("reader", "other", code=3)
        assert "add --allow-source reader" in result.err
        assert runs.read_text() == seen

    def test_installing_needs_consent(self, setup: Workplace, counting: tuple[str, Path]) -> None:
        """Cached metadata is not consent to build."""
        backend, runs = counting
        setup.sdist("reader", dynamic=True, backend=backend)
        setup.lock("reader", "--allow-source", "reader")
        seen = runs.read_text()
        assert "--allow-source reader" in setup.sync(code=3).err
        place = (*setup.sources, "--target", setup.target)
        result = setup.run("install", *place, "reader", code=3)
        assert "known only to the build backend" not in result.err
        assert runs.read_text() == seen

    def test_repository(self, setup: Workplace, counting: tuple[str, Path]) -> None:
        """The backend runs once per commit."""
        backend, runs = counting
        made = setup.folder / "repo"
        folder = write_project(made, "demo", dependencies=["plain"], dynamic=True, backend=backend)
        commit_all(folder)
        setup.lock(f"git+{folder.as_uri()}@main")
        seen = runs.read_text()
        assert seen
        setup.lock(f"git+{folder.as_uri()}@main", "plain")
        assert setup.entry("demo")["dependencies"] == [{"name": "plain"}]
        assert runs.read_text() == seen

    def test_folder(self, setup: Workplace, counting: tuple[str, Path]) -> None:
        """The backend runs again after any file of the folder has changed."""
        backend, runs = counting
        made = setup.folder / "demo"
        folder = write_project(made, "demo", dependencies=["plain"], dynamic=True, backend=backend)
        (made / "plain.txt").write_text("one")
        setup.lock(folder)
        seen = runs.read_text()
        setup.lock(folder, "plain")
        assert runs.read_text() == seen
        (made / "plain.txt").write_text("three")
        setup.lock(folder)
        assert runs.read_text() != seen

    def test_folder_in_a_repository(self, setup: Workplace, counting: tuple[str, Path]) -> None:
        """A new tag counts as a change, as versions may come from tags."""
        backend, runs = counting
        folder = write_project(setup.folder / "demo", "demo", dynamic=True, backend=backend)
        commit_all(folder)
        setup.lock(folder)
        seen = runs.read_text()
        setup.lock(folder, "plain")
        assert runs.read_text() == seen
        commit_all(folder, tag="v2")
        setup.lock(folder)
        assert runs.read_text() != seen


class TestNamedSources:
    """Folders and archives on the command line."""

    def test_folder(self, setup: Workplace) -> None:
        """A folder is locked by relative path without a version, and built by sync."""
        write_project(setup.folder / "demo", "demo", dependencies=["plain"], backend=POISONED)
        assert "+ demo\n" in setup.lock(setup.folder / "demo").out
        entry = setup.entry("demo")
        assert entry["directory"] == {"path": "demo"}
        assert "version" not in entry
        write_project(setup.folder / "demo", "demo", dependencies=["plain"])
        result = setup.sync(code=3)
        assert "demo 1.0 must be built from source" in result.err
        assert ": requested" in result.err
        assert "--allow-source demo, which runs the code in that folder" in result.err
        assert "uv" not in result.err
        setup.sync("--allow-source", "demo")
        assert setup.versions() == {"demo": "1.0", "plain": "1.0"}

    def test_unknown_version(self, setup: Workplace) -> None:
        """A dynamic version is unknown until the folder is built."""
        folder = write_project(setup.folder / "demo", "demo", dependencies=["plain"], dynamic=True)
        setup.lock(folder)
        assert "error: demo must be built from source" in setup.sync(code=3).err
        planned = setup.sync("--allow-source", "demo", "--dry-run").out
        assert [row.split()[:2] for row in planned.splitlines() if row.startswith("demo")] == [
            ["demo", "local"]
        ]

    def test_editable_folder(self, setup: Workplace) -> None:
        """An editable folder is linked, and the next sync keeps it."""
        folder = write_project(setup.folder / "demo", "demo")
        setup.lock("-e", folder)
        assert setup.entry("demo")["directory"] == {"path": "demo", "editable": True}
        setup.sync("--allow-source", "demo")
        assert list(setup.target.glob("__editable__*.pth"))
        assert "matches the lock" in setup.sync().out

    def test_editable_folder_beside_the_lock(self, setup: Workplace) -> None:
        """A folder that was installed as editable by its path is kept by a lock elsewhere."""
        folder = write_project(setup.folder / "demo", "demo")
        setup.path = setup.folder / "locks" / "pylock.toml"
        setup.path.parent.mkdir()
        setup.lock("-e", folder)
        assert setup.entry("demo")["directory"] == {"path": "../demo", "editable": True}
        setup.install("-e", folder)
        assert "matches the lock" in setup.sync().out
        setup.path.parent.rename(setup.folder / "demo" / "locks")
        setup.path.parent.symlink_to(setup.folder / "demo" / "locks")  # "../demo" is not there
        assert "the path does not exist" in setup.sync("--allow-source", "demo", code=1).err

    def test_changed_dependencies(self, setup: Workplace) -> None:
        """Changed dependencies of a folder make the lock outdated."""
        build_wheel(setup.wheels, "other", "1.0")
        folder = write_project(setup.folder / "demo", "demo", dependencies=["plain"])
        setup.lock(folder)
        setup.lock(folder, "--check")
        write_project(folder, "demo", dependencies=["plain", "other"])
        result = setup.lock(folder, "--check", code=31)
        assert "+ other 1.0" in result.err

    def test_folder_with_dynamic_metadata(self, setup: Workplace) -> None:
        """Naming a folder is consent to run its backend for metadata."""
        folder = write_project(setup.folder / "demo", "demo", dependencies=["plain"], dynamic=True)
        setup.lock(folder)
        assert setup.entry("demo")["dependencies"] == [{"name": "plain"}]
        assert setup.entry("plain")["version"] == "1.0"

    def test_backend_without_a_metadata_hook(self, setup: Workplace) -> None:
        """A backend without a metadata hook is asked by building."""
        without = "\ndel prepare_metadata_for_build_wheel, prepare_metadata_for_build_editable\n"
        folder = write_project(
            setup.folder / "demo",
            "demo",
            dependencies=["plain"],
            dynamic=True,
            backend=without,
        )
        setup.lock(folder, "--platform", "windows-x86_64")
        assert setup.entry("demo")["directory"] == {"path": "demo"}
        assert "marker" not in setup.entry("demo")

    def test_archive(self, setup: Workplace) -> None:
        """An archive is locked with its hash; another one is refused."""
        made = write_project(setup.folder / "projects" / "demo", "demo")
        path = write_sdist(setup.folder, made, "demo")
        setup.lock(path)
        archive = setup.entry("demo")["archive"]
        assert archive["path"] == "demo-1.0.tar.gz"
        assert archive["hashes"].keys() == {"sha256"}
        setup.sync("--allow-source", "demo")
        assert "matches the lock" in setup.sync().out
        shutil.rmtree(setup.target)
        write_project(made, "demo", backend="\n# another\n")
        write_sdist(setup.folder, made, "demo")
        assert "demo-1.0.tar.gz" in setup.sync("--allow-source", "demo", code=4).err

    def test_deleted_folder(self, setup: Workplace) -> None:
        """A deleted folder is an error that names it."""
        folder = write_project(setup.folder / "demo", "demo")
        setup.lock(folder)
        shutil.rmtree(folder)
        result = setup.sync("--allow-source", "demo", code=1)
        assert str(folder) in result.err
        assert "named in the lock" in result.err
        assert not setup.target.exists()


class TestRepositories:
    """Projects in repositories."""

    def test_branch(self, setup: Workplace) -> None:
        """The commit of a branch is locked, and built after the branch has moved."""
        folder = write_project(setup.folder / "repo", "demo", dependencies=["plain"])
        commit = commit_all(folder)
        setup.lock(f"demo @ git+{folder.as_uri()}@main")
        entry = setup.entry("demo")
        assert entry["vcs"] == {
            "type": "git",
            "path": "repo",
            "requested-revision": "main",
            "commit-id": commit,
        }
        write_project(folder, "demo", "2.0")
        commit_all(folder)
        setup.sync("--allow-source", "demo")
        assert setup.versions() == {"demo": "1.0", "plain": "1.0"}
        assert "matches the lock" in setup.sync().out

    def test_locked_commit(self, setup: Workplace) -> None:
        """The locked commit is kept until an upgrade."""
        folder = write_project(setup.folder / "repo", "demo")
        first = commit_all(folder)
        source = f"git+{folder.as_uri()}@main"
        setup.lock(source)
        write_project(folder, "demo", "2.0")
        second = commit_all(folder)
        setup.lock(source, "--check")
        setup.lock(source, "plain")
        assert setup.entry("demo")["vcs"]["commit-id"] == first
        setup.lock(source, "plain", "-P", "demo")
        assert setup.entry("demo")["vcs"]["commit-id"] == second
        assert setup.entry("demo")["vcs"]["requested-revision"] == "main"

    def test_subdirectory(self, setup: Workplace) -> None:
        """The subdirectory of a project is locked."""
        write_project(setup.folder / "repo" / "python", "demo")
        commit_all(setup.folder / "repo")
        setup.lock(f"git+{(setup.folder / 'repo').as_uri()}#subdirectory=python")
        assert setup.entry("demo")["vcs"]["subdirectory"] == "python"
        setup.sync("--allow-source", "demo")
        assert setup.versions() == {"demo": "1.0"}

    def test_missing_revision(self, setup: Workplace) -> None:
        """A missing revision is an error, and no lock is written."""
        folder = write_project(setup.folder / "repo", "demo")
        commit_all(folder)
        result = setup.lock(f"git+{folder.as_uri()}@nowhere", code=5)
        assert "checkout-failed" in result.err
        assert not setup.path.exists()


class TestTables:
    """The tables of sources in pyproject.toml."""

    @pytest.fixture
    def project(self, setup: Workplace, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Return the pyproject.toml of a project with a folder for a dependency."""
        build_wheel(setup.wheels, "member", "9.0")
        write_project(setup.folder / "app" / "member", "member", dependencies=["plain"])
        monkeypatch.chdir(setup.folder / "app")
        setup.path = setup.folder / "app" / "pylock.toml"
        return setup.folder / "app" / "pyproject.toml"

    @staticmethod
    def write(project: Path, sources: str, *, table: str = "tool.uv.sources") -> None:
        """Write a project with a table of sources."""
        project.write_text(
            '[project]\nname = "app"\nversion = "1"\nrequires-python = ">=3.11"\n'
            f'dependencies = ["member"]\n[{table}]\n{sources}\n'
        )

    @pytest.mark.parametrize(
        ("line", "versions"),
        [
            ("", {"member": "9.0", "other": "2.0"}),
            ('constraint-dependencies = ["other<2"]', {"member": "9.0", "other": "1.0"}),
            ('override-dependencies = ["member<2"]', {"member": "1.0", "other": "2.0"}),
            ('exclude-dependencies = ["other"]', {"member": "9.0"}),
        ],
    )
    @pytest.mark.parametrize(("table", "prefix"), [("tool.uv", ""), ("tool", "uv.")])
    def test_lists_of_uv(
        self,
        setup: Workplace,
        project: Path,
        line: str,
        versions: dict[str, str],
        table: str,
        prefix: str,
    ) -> None:
        """Constraints, overrides and exclusions for uv have the same meaning."""
        build_wheel(setup.wheels, "member", "1.0", requires=["other"])
        build_wheel(setup.wheels, "member", "9.0", requires=["other"])
        for version in ("1.0", "2.0"):
            build_wheel(setup.wheels, "other", version)
        self.write(project, line and prefix + line, table=table)
        setup.lock("--python-version", "3.11")
        packages = tomllib.loads(setup.path.read_text())["packages"]
        assert {package["name"]: package["version"] for package in packages} == versions

    def test_a_bad_list_of_uv(self, setup: Workplace, project: Path) -> None:
        """A list of uv of the wrong type is an error with its line."""
        self.write(project, 'override-dependencies = "other"', table="tool.uv")
        result = setup.lock("--python-version", "3.11", code=1)
        assert "tool.uv.override-dependencies must be a list of strings" in result.err
        assert "where: pyproject.toml:7" in result.err

    @pytest.mark.parametrize("table", ["tool.uv.sources", "tool.wheelfit.sources"])
    def test_path_source(self, setup: Workplace, project: Path, table: str) -> None:
        """A dependency with a path comes from the folder, not from an index."""
        self.write(project, 'member = { path = "member", editable = true }', table=table)
        setup.lock("--python-version", "3.11")
        assert setup.entry("member")["directory"] == {"path": "member", "editable": True}
        setup.sync("--allow-source", "member")
        assert setup.versions() == {"member": "1.0", "plain": "1.0"}

    @pytest.mark.parametrize("tag", ["v1", "member@1.0", "v#1", "v1+a", "v%2b"])
    def test_repository_source(self, setup: Workplace, project: Path, tag: str) -> None:
        """A dependency with a repository is locked at the commit of its tag, and stays there."""
        commit = commit_all(setup.folder / "app" / "member", tag=tag)
        address = (setup.folder / "app" / "member").as_uri()
        self.write(project, f'member = {{ git = "{address}", tag = "{tag}" }}')
        for _ in range(2):
            setup.lock("--python-version", "3.11")
            assert setup.entry("member")["vcs"]["commit-id"] == commit
            assert setup.entry("member")["vcs"]["requested-revision"] == tag

    def test_url_requirement(self, setup: Workplace, project: Path) -> None:
        """A URL in the requirement has the same effect."""
        member = (setup.folder / "app" / "member").as_uri()
        project.write_text(
            f'[project]\nname = "app"\nversion = "1"\ndependencies = ["member @ {member}"]\n'
        )
        setup.lock("--python-version", "3.11")
        assert setup.entry("member")["directory"] == {"path": "member"}

    def test_source_with_a_marker(self, setup: Workplace, project: Path) -> None:
        """A source applies where its marker matches; elsewhere the index does."""
        self.write(project, "member = [{ path = 'member', marker = \"sys_platform == 'linux'\" }]")
        setup.lock("--python-version", "3.11", "--platform", "windows-x86_64")
        packages = tomllib.loads(setup.path.read_text())["packages"]
        found = {
            package["marker"]: package.get("directory") or package["version"]
            for package in packages
            if package["name"] == "member"
        }
        assert found == {
            "sys_platform == 'linux'": {"path": "member"},
            "sys_platform == 'win32'": "9.0",
        }

    def test_missing_path(self, setup: Workplace, project: Path) -> None:
        """A missing path is an error that names it."""
        self.write(project, 'member = { path = "gone" }')
        result = setup.lock("--python-version", "3.11", code=1)
        assert str(setup.folder / "app" / "gone") in result.err

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
        self, source: str, words: str, setup: Workplace, project: Path
    ) -> None:
        """An invalid source is an error with its place, and nothing is locked."""
        self.write(project, f"member = {source}")
        result = setup.lock("--python-version", "3.11", code=1)
        assert words in result.err
        assert "tool.uv.sources.member" in result.err
        assert not setup.path.exists()
