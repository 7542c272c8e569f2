"""``wheelfit install`` of source distributions: consent, isolation, records, and failures."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner
from cli.workplace import POISONED, Workplace
from programs import is_running, until
from projects.writing import commit_all, write_project, write_sdist

from wheelfit.cli.main import main
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = pytest.mark.integration

COUNTING_BACKEND = """
def counted(build):
    def wrapper(*arguments, **more):
        with open(os.path.join(HERE, "count"), "a") as file:
            file.write("x")
        return build(*arguments, **more)
    return wrapper
build_wheel = counted(build_wheel)
build_editable = counted(build_editable)
"""
"""Makes a backend count how often it builds."""
BACKEND_WITH_UNRECORDED_FILE = """
def build_wheel(folder, *arguments, **more):
    name = write(folder, STEM + "-py3-none-any.whl", records())
    with zipfile.ZipFile(os.path.join(folder, name), "a") as wheel:
        wheel.writestr("stray.py", "")
    return name
"""
"""Builds a wheel with a file that RECORD does not have."""


@pytest.fixture
def workshop(run: Runner, tmp_path: Path) -> Iterator[Workplace]:
    """Yield a folder with an index of a plain wheel."""
    with RecordingIndex(tmp_path / "wheels") as index:
        build_wheel(tmp_path / "wheels", "plain", "1.0")
        yield Workplace(run, tmp_path, index)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with one dependency."""
    return write_project(
        tmp_path / "project", "demo", dependencies=["plain>=1"], backend=COUNTING_BACKEND
    )


def module(workshop: Workplace, name: str) -> dict[str, Any]:
    """Return the values that the backend wrote into a module."""
    found: dict[str, Any] = {}
    exec((workshop.target / name / "__init__.py").read_text(), found)
    return found


def count(project: Path) -> int:
    """Return the number of builds of a project."""
    path = project / "count"
    return len(path.read_text()) if path.exists() else 0


class TestFolders:
    """Local folders."""

    def test_folder(self, workshop: Workplace, project: Path) -> None:
        """F-108: A folder is built in an isolated environment, into a plain wheel (PEP 517)."""
        result = workshop.install(project)
        assert f"installed demo 1.0, built from {project}" in result.out
        assert set(workshop.packages()) == {"demo", "plain"}
        assert workshop.direct_url("demo") == {"url": project.as_uri(), "dir_info": {}}
        built = module(workshop, "demo")
        assert Path(built["PYTHON"]).parent != Path(sys.executable).parent
        assert not any(
            "site-packages" in one and "wheelfit-change" not in one for one in built["PATH"]
        )
        assert not any(str(workshop.target) in one for one in built["PATH"])

    def test_editable(self, workshop: Workplace, project: Path) -> None:
        """PEP 660: an editable folder is linked, listed as editable, and can be uninstalled."""
        workshop.install("-e", project)
        assert (workshop.target / "__editable__.demo.pth").read_text() == f"{project}/src\n"
        assert workshop.direct_url("demo")["dir_info"] == {"editable": True}
        entry = workshop.packages()["demo"]
        assert (entry["editable"], entry["project"]) == (True, str(project))
        workshop.install("-e", project)
        assert count(project) == 2
        workshop.install(project)
        assert not workshop.packages()["demo"]["editable"]
        assert not (workshop.target / "__editable__.demo.pth").exists()
        workshop.run("uninstall", "--target", workshop.target, "demo")
        assert set(workshop.packages()) == {"plain"}

    def test_extras(
        self, workshop: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Extras of a folder are given as in pip; a relative path starts at the current folder."""
        project = write_project(tmp_path / "with extras", "extra")
        with (project / "pyproject.toml").open("a") as file:
            file.write('[project.optional-dependencies]\nmore = ["plain"]\n')
        with (project / "own_backend.py").open("a") as file:
            file.write(
                "\nABOUT['dependencies'] = ['plain; extra == \"more\"\\nProvides-Extra: more']\n"
            )
        monkeypatch.chdir(tmp_path)
        workshop.install("./with extras[more]")
        assert set(workshop.packages()) == {"extra", "plain"}

    def test_static_metadata(self, workshop: Workplace, tmp_path: Path) -> None:
        """A dry run reads static metadata without executing code of the project."""
        project = write_project(tmp_path / "p", "demo", dependencies=["plain"], backend=POISONED)
        result = workshop.install("--dry-run", "--json", project)
        rows = {row["name"]: row for row in result.object["install"]}
        assert set(rows) == {"demo", "plain"}
        assert (rows["demo"]["filename"], rows["demo"]["built_from"]) == (None, str(project))
        assert rows["plain"]["built_from"] is None
        assert "the backend was run" in workshop.install(project, code=1).err
        assert not workshop.target.exists()

    def test_dynamic_metadata(self, workshop: Workplace, tmp_path: Path) -> None:
        """Dynamic metadata comes from the backend, without a build."""
        project = write_project(
            tmp_path / "p", "demo", dependencies=["plain"], dynamic=True, backend=COUNTING_BACKEND
        )
        allowed = workshop.install("--dry-run", project, "--allow-source", "demo")
        assert "to be built from" in allowed.out
        assert count(project) == 0
        workshop.install(project)
        assert set(workshop.packages()) == {"demo", "plain"}

    @pytest.mark.parametrize("how", ["folder", "editable", "archive", "repository", "setup.py"])
    @pytest.mark.parametrize(
        "looking", [["install", "--dry-run"], ["explain"], ["explain", "--with-deps"]], ids=" ".join
    )
    def test_no_code_is_executed_in_dry_runs(
        self, workshop: Workplace, tmp_path: Path, looking: list[str], how: str
    ) -> None:
        """A dry run or explain executes no code of a project, even with dynamic metadata."""
        mark = tmp_path / "it ran"
        poison = f"\nopen({str(mark)!r}, 'w').close()\n"
        project = write_project(tmp_path / "p", "demo", dynamic=True, backend=poison)
        words: list[str | Path] = [project]
        if how == "editable" and looking[0] == "install":
            words = ["-e", project]
        elif how == "archive":
            words = [write_sdist(tmp_path / "sdists", project, "demo", "1.0")]
        elif how == "repository":
            commit_all(project)
            words = [f"demo @ git+{project.as_uri()}"]
        elif how == "setup.py":
            shutil.rmtree(project)
            project.mkdir()
            (project / "setup.py").write_text(poison)
        command, *more = looking
        result = workshop.install(*more, *words, command=command, code=3)
        assert "[source-build-not-allowed]" in result.err
        name = "always" if how == "setup.py" else "demo"
        assert f"--allow-source {name} runs the backend, which is code of the project" in result.err
        assert not mark.exists()
        if how != "setup.py":
            workshop.install(*more, *words, "--allow-source", "demo", command=command)
            assert mark.exists()

    def test_backend_without_a_metadata_hook(self, workshop: Workplace, tmp_path: Path) -> None:
        """A backend without a metadata hook builds the wheel once."""
        hooks = "\ndel prepare_metadata_for_build_wheel\n"
        project = write_project(
            tmp_path / "p", "demo", dynamic=True, backend=COUNTING_BACKEND + hooks
        )
        workshop.install(project)
        assert count(project) == 1

    def test_dependencies_of_the_wheel(self, workshop: Workplace, tmp_path: Path) -> None:
        """Dependencies that the build adds are installed, as for some editable wheels."""
        hooks = "\nABOUT['dependencies'] = ['plain']\n"
        project = write_project(tmp_path / "p", "demo", backend=hooks)
        workshop.install("-e", project)
        assert set(workshop.packages()) == {"demo", "plain"}

    def test_folders_are_not_cached(
        self, workshop: Workplace, project: Path, tmp_path: Path
    ) -> None:
        """A wheel built from a folder is not cached."""
        for _ in range(2):
            workshop.install(project)
        assert count(project) == 2
        assert not [
            path for path in (tmp_path / "cache").rglob("*demo*") if "plain" not in str(path)
        ]

    def test_no_project(self, workshop: Workplace, tmp_path: Path) -> None:
        """A folder without a project is an error that names it."""
        (tmp_path / "empty").mkdir()
        result = workshop.install(tmp_path / "empty", code=1)
        assert "no project found" in result.err
        assert str(tmp_path / "empty") in result.err

    def test_project_with_another_name(self, workshop: Workplace, project: Path) -> None:
        """A URL requirement must have the name of its project."""
        result = workshop.install(f"other @ {project.as_uri()}", code=1)
        assert "the project is demo, not other" in result.err

    def test_marker_that_does_not_match(self, workshop: Workplace, tmp_path: Path) -> None:
        """A URL whose marker does not match is not opened."""
        result = workshop.install(f"other @ file://{tmp_path}/none.tar.gz ; sys_platform == 'x'")
        assert result.out.startswith("nothing to do")


class TestArchives:
    """Source archives by path and URL."""

    def test_path(self, workshop: Workplace, project: Path, tmp_path: Path) -> None:
        """The hash of an archive is recorded and its wheel is cached."""
        path = write_sdist(tmp_path, project, "demo")
        workshop.install(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert workshop.direct_url("demo") == {
            "url": path.as_uri(),
            "archive_info": {"hash": f"sha256={digest}", "hashes": {"sha256": digest}},
        }
        assert "built demo-1.0" not in workshop.install(path).err
        cached_wheel = self.cached_wheel(tmp_path)
        cached_wheel.chmod(0o644)
        cached_wheel.write_bytes(b"damaged")
        assert "built demo-1.0" in workshop.install(path).err
        again = workshop.install(path, "-C", "fast=yes", "-C", "list=a", "-C", "list=b")
        assert "built demo-1.0" in again.err
        assert module(workshop, "demo")["SETTINGS"] == {"fast": "yes", "list": ["a", "b"]}

    @staticmethod
    def cached_wheel(folder: Path) -> Path:
        """Return the wheel of the project in the cache."""
        files = [path for path in (folder / "cache" / "wheels-1").rglob("*") if path.is_file()]
        (cached_wheel,) = [file for file in files if b"demo/__init__.py" in file.read_bytes()]
        return cached_wheel

    def test_no_cache(self, workshop: Workplace, project: Path, tmp_path: Path) -> None:
        """Without a cache every installation builds."""
        path = write_sdist(tmp_path, project, "demo")
        for _ in range(2):
            result = workshop.install("--no-cache-dir", "--force-reinstall", path)
            assert "built demo-1.0" in result.err

    def test_no_isolation(self, workshop: Workplace, project: Path, tmp_path: Path) -> None:
        """Wheels that were built without isolation are not cached."""
        path = write_sdist(tmp_path, project, "demo")
        workshop.install(path)
        for _ in range(2):
            assert "built demo-1.0" in workshop.install("--no-build-isolation", path).err

    def test_url(self, workshop: Workplace, project: Path) -> None:
        """An archive is downloaded from its URL; credentials in the URL are not recorded."""
        path = write_sdist(workshop.wheels, project, "demo")
        url = workshop.index.file_url(path.name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        login = url.replace("://", "://me:s3cret@")
        result = workshop.install(f"demo @ {login}#sha256={digest}")
        assert "s3cret" not in result.out + result.err
        assert workshop.direct_url("demo")["url"] == url

    def test_hash_of_an_archive(self, workshop: Workplace, project: Path, tmp_path: Path) -> None:
        """A given hash is checked before the archive is unpacked."""
        path = write_sdist(tmp_path, project, "demo")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        workshop.install(f"demo @ {path.as_uri()}#sha256={digest}")
        result = workshop.install(f"demo @ {path.as_uri()}#sha256={'0' * 64}", code=4)
        assert "hash-mismatch" in result.err
        lines = tmp_path / "r.txt"
        lines.write_text(f"{path} --hash=sha256:{'0' * 64} --hash=sha256:{digest}\nplain\n")
        result = workshop.install("-r", lines, "--require-hashes", code=1)
        assert "plain has none" in result.err
        workshop.install(
            "-r", lines, "--require-hashes", "--no-deps", "--exclude", "plain", "-C", "a=b"
        )

    def test_hash_of_a_wheel_url(self, workshop: Workplace, tmp_path: Path) -> None:
        """The hash of a wheel by name and URL is checked."""
        wheel = build_wheel(tmp_path, "other", "1.0")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines = tmp_path / "r.txt"
        for fragment in ("", f"#sha256={digest}", "#egg=other"):
            url = f"other @ {wheel.as_uri()}{fragment}"
            lines.write_text(f"{url} ; python_version > '3' --hash=sha256:{digest}\n")
            workshop.install("--require-hashes", "--force-reinstall", "-r", lines)
            lines.write_text(f"{url} --hash=sha256:{'0' * 64}\n")
            code = 3 if "sha256" in fragment else 4
            workshop.install("--force-reinstall", "-r", lines, code=code)

    def test_several_hashes(self, workshop: Workplace, tmp_path: Path) -> None:
        """One matching hash of several is sufficient, in any order, as in pip."""
        wheel = build_wheel(tmp_path, "other", "1.0")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines = tmp_path / "r.txt"
        for two in ((digest, "0" * 64), ("0" * 64, digest)):
            lines.write_text(" ".join([str(wheel), *(f"--hash=sha256:{one}" for one in two)]))
            workshop.install("--force-reinstall", "-r", lines)
        lines.write_text(f"{wheel} --hash=sha256:{'0' * 64} --hash=sha256:{'1' * 64}\n")
        result = workshop.install("--force-reinstall", "-r", lines, code=4)
        assert "hash-mismatch" in result.err

    def test_weak_hashes(self, workshop: Workplace, tmp_path: Path) -> None:
        """MD5 and SHA-1 do not satisfy --require-hashes."""
        wheel = build_wheel(tmp_path, "other", "1.0")
        digest = hashlib.md5(wheel.read_bytes(), usedforsecurity=False).hexdigest()
        named = f"other @ {wheel.as_uri()}#md5={digest}"
        workshop.install(named)
        result = workshop.install("--require-hashes", "--force-reinstall", named, code=1)
        assert "other has none" in result.err

    @pytest.mark.parametrize("words", [("{project}",), ("-e", "{project}"), ("{git}",)])
    def test_folders_and_repositories_have_no_hash(
        self, words: tuple[str, ...], workshop: Workplace, project: Path
    ) -> None:
        """--require-hashes refuses folders and repositories."""
        commit_all(project)
        places = {"project": project, "git": f"git+{project.as_uri()}"}
        result = workshop.install("--require-hashes", *(w.format(**places) for w in words), code=1)
        assert "hashes are required, and " in result.err
        assert "a folder or a repository has none" in result.err

    def test_no_code_without_a_hash(self, workshop: Workplace, tmp_path: Path) -> None:
        """Where hashes are required, no code of a project without a hash is executed.

        One hash in a file requires hashes for all its requirements, as in pip.
        """
        project = write_project(tmp_path / "p", "demo", dynamic=True, backend=POISONED)
        path = write_sdist(tmp_path, project, "demo")
        wheel = build_wheel(tmp_path, "other", "1.0")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines = tmp_path / "r.txt"
        lines.write_text(f"{wheel} --hash=sha256:{digest}\n{path}\n")
        asked: tuple[tuple[str | Path, ...], ...] = (("--require-hashes", path), ("-r", lines))
        for words in asked:
            result = workshop.install(*words, code=1)
            assert f"hashes are required, and {path.as_uri()} has none" in result.err
        lines.write_text(f"{wheel} --hash=sha256:{digest}\nplain\n")
        assert "plain has none" in workshop.install("-r", lines, code=1).err

    def test_static_metadata_of_an_sdist(self, workshop: Workplace, tmp_path: Path) -> None:
        """PEP 643: static metadata of PKG-INFO is read without the backend."""
        project = write_project(tmp_path / "p", "demo", dynamic=True, backend=POISONED)
        info = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nRequires-Dist: plain\n"
        path = write_sdist(tmp_path, project, "demo", pkg_info=info)
        result = workshop.install("--dry-run", path)
        assert re.search(r"^plain +1\.0 ", result.out, re.MULTILINE)

    def test_archive_of_another_release(
        self, workshop: Workplace, project: Path, tmp_path: Path
    ) -> None:
        """PEP 625: an archive whose name does not match its metadata is refused."""
        path = write_sdist(tmp_path, project, "demo", "2.0", pkg_info="")
        result = workshop.install(path, code=4)
        assert "the archive is named demo 2.0" in result.err
        assert "demo 1.0" in result.err

    @pytest.mark.parametrize("url", ["https://host.example/main.exe", "git+https://h.example"])
    def test_invalid_urls(self, url: str, workshop: Workplace) -> None:
        """A URL of no wheel, archive or repository is an error."""
        workshop.install(url, code=1)

    def test_offline(self, workshop: Workplace) -> None:
        """Offline, nothing is downloaded and git is not started."""
        workshop.install("--offline", "https://host.example/demo-1.0.tar.gz", code=5)
        result = workshop.install("--offline", "git+https://host.example/demo.git", code=5)
        assert "wheelfit is offline" in result.err


class TestRepositories:
    """Projects in repositories."""

    def test_git(self, workshop: Workplace, tmp_path: Path) -> None:
        """PEP 610: a subdirectory at a tag is installed, and its commit recorded."""
        write_project(tmp_path / "repository" / "python", "demo", backend=COUNTING_BACKEND)
        commit = commit_all(tmp_path / "repository", tag="v1")
        url = (tmp_path / "repository").as_uri()
        for _ in range(2):
            result = workshop.install(f"demo @ git+{url}@v1#subdirectory=python")
        assert "built demo-1.0" not in result.err
        assert workshop.direct_url("demo") == {
            "url": url,
            "subdirectory": "python",
            "vcs_info": {"vcs": "git", "commit_id": commit, "requested_revision": "v1"},
        }

    @pytest.mark.parametrize(
        ("ending", "code", "words"),
        [("@nope", 5, "git fetch failed"), ("#subdirectory=nope", 1, "no folder nope")],
    )
    def test_missing_revision_or_folder(
        self, ending: str, code: int, words: str, workshop: Workplace, project: Path
    ) -> None:
        """A missing revision or subdirectory is an error."""
        commit_all(project)
        assert words in workshop.install(f"demo @ git+{project.as_uri()}{ending}", code=code).err

    def test_subdirectory_that_links_out(self, workshop: Workplace, tmp_path: Path) -> None:
        """A subdirectory that links out of the repository is refused."""
        write_project(tmp_path / "elsewhere", "demo")
        (tmp_path / "repository").mkdir()
        (tmp_path / "repository" / "python").symlink_to(tmp_path / "elsewhere")
        commit_all(tmp_path / "repository")
        url = f"git+{(tmp_path / 'repository').as_uri()}#subdirectory=python"
        assert "no folder python" in workshop.install(f"demo @ {url}", code=1).err

    def test_editable_repository(self, workshop: Workplace, project: Path) -> None:
        """A repository cannot be editable."""
        commit_all(project)
        result = workshop.install("-e", f"git+{project.as_uri()}#egg=demo", code=1)
        assert "clone it" in result.err


class TestFiles:
    """Requirements files."""

    def test_requirements_file(self, workshop: Workplace, project: Path, tmp_path: Path) -> None:
        """Requirements files can have folders, archives and repositories."""
        other = write_project(tmp_path / "other", "other")
        commit_all(other)
        third = write_sdist(tmp_path, write_project(tmp_path / "third", "third"), "third")
        (tmp_path / "r.txt").write_text(
            f"-e {project}\nother @ git+{other.as_uri()}@main\n{third}\n"
        )
        workshop.install("-r", tmp_path / "r.txt")
        assert set(workshop.packages()) == {"demo", "plain", "other", "third"}
        assert workshop.packages()["demo"]["editable"]

    def test_pyproject_file(self, workshop: Workplace, project: Path, tmp_path: Path) -> None:
        """URLs in the pyproject.toml that the user names are allowed."""
        commit_all(project)
        path = tmp_path / "own" / "pyproject.toml"
        path.parent.mkdir()
        path.write_text(
            f'[project]\nname = "own"\ndependencies = ["demo @ git+{project.as_uri()}"]\n'
        )
        workshop.install("-r", path)
        assert set(workshop.packages()) == {"demo", "plain"}

    def test_editable_constraint(self, workshop: Workplace, project: Path, tmp_path: Path) -> None:
        """A constraint cannot be editable."""
        (tmp_path / "c.txt").write_text(f"-e {project}\n")
        assert (
            "cannot be a constraint" in workshop.install("x", "-c", tmp_path / "c.txt", code=1).err
        )

    def test_url_dependency(self, workshop: Workplace, project: Path) -> None:
        """A URL dependency of a wheel is refused unless the user names it too."""
        build_wheel(workshop.wheels, "asking", "1.0", requires=[f"demo @ {project.as_uri()}"])
        result = workshop.install("asking", code=3)
        assert "only you may request a URL" in result.err
        workshop.install("asking", f"demo @ {project.as_uri()}")
        assert set(workshop.packages()) == {"asking", "demo", "plain"}


class TestIndexes:
    """Source distributions of an index."""

    def test_no_consent(self, workshop: Workplace, project: Path) -> None:
        """F-92: nothing is built without consent; the hint names the option."""
        write_sdist(workshop.wheels, project, "demo")
        build_wheel(workshop.wheels, "demo", "1.0", tag="cp39-cp39-win32")
        result = workshop.install("demo", code=3)
        assert "demo 1.0 must be built from source" in result.err
        assert "[source-build-not-allowed]" in result.err
        assert "demo-1.0.tar.gz: requested" in result.err
        assert "--allow-source demo" in result.err
        assert count(project) == 0
        rows = workshop.install("demo", "--json", command="explain", code=3).object["projects"][0]
        assert rows["candidates"][-1] == {
            "filename": "demo-1.0.tar.gz",
            "label": None,
            "verdict": "rejected",
            "reason": "it must be built from source (--allow-source demo)",
        }
        result = workshop.install("demo", command="explain", code=3)
        assert "demo-1.0.tar.gz: it must be built from source" in result.out

    @pytest.mark.parametrize("name", ["demo", "Demo", "always"])
    def test_consent(self, name: str, workshop: Workplace, project: Path) -> None:
        """F-92: with consent the package is built and cached, without a direct URL record."""
        write_sdist(workshop.wheels, project, "demo")
        result = workshop.install("demo", "--allow-source", name)
        assert "installed demo 1.0, built from demo-1.0.tar.gz" in result.out
        assert not list(workshop.target.glob("demo-*/direct_url.json"))
        assert workshop.install("demo").out.startswith("nothing to do")
        again = workshop.install("demo", "--allow-source", name, "--force-reinstall")
        assert "built demo-1.0" not in again.err

    def test_consent_by_configuration(
        self, workshop: Workplace, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A variable or the user's settings can give consent; a project's settings cannot."""
        write_sdist(workshop.wheels, project, "demo")
        monkeypatch.setenv("WHEELFIT_ALLOW_SOURCE", "demo")
        workshop.install("demo")
        monkeypatch.delenv("WHEELFIT_ALLOW_SOURCE")
        path = tmp_path / "pyproject.toml"
        path.write_text('[project]\nname = "x"\n[tool.wheelfit]\nallow-source = "always"\n')
        result = workshop.run("config", "show", "--project", path, code=1)
        assert "allow-source" in result.err

    def test_wheels_are_preferred(self, workshop: Workplace, project: Path) -> None:
        """F-92: A release with a compatible wheel is never built."""
        write_sdist(workshop.wheels, project, "demo")
        build_wheel(workshop.wheels, "demo", "1.0", tag="py2.py3-none-any")
        result = workshop.install("demo", "--allow-source", "always")
        assert "built from" not in result.out
        rows = workshop.install(
            "demo", "--allow-source", "demo", "--json", command="explain"
        ).object["projects"][0]["candidates"]
        assert [row["verdict"] for row in rows] == ["chosen", "rejected"]
        assert "a compatible wheel exists" in rows[1]["reason"]

    def test_package_with_variants(self, workshop: Workplace, project: Path) -> None:
        """F-92: packages with variants are built only with consent by name, not by `always`."""
        document = release_document(
            {"gpu": {"acme": {"chip": ["7"]}}},
            providers={"acme": {"requires": ["acme-provider"], "plugin-api": "acme:Plugin"}},
        )
        build_wheel(workshop.wheels, "demo", "1.0", label="gpu", document=document)
        write_sdist(workshop.wheels, project, "demo")
        result = workshop.install("demo", "--allow-source", "always", code=3)
        assert "[source-build-not-allowed]" in result.err
        workshop.install("demo", "--allow-source", "demo")
        assert workshop.packages()["demo"]["label"] is None

    @pytest.mark.parametrize(
        ("consent", "only", "code"),
        [
            ("always", "other, Demo", 3),
            ("always", ":all:", 3),
            ("demo", "demo", 3),
            ("demo", ":all:", 0),
            ("always", "demo,:none:,other", 0),
        ],
    )
    def test_only_binary(
        self, consent: str, only: str, code: int, workshop: Workplace, project: Path, tmp_path: Path
    ) -> None:
        """--only-binary overrides consent, and a name overrides `:all:`."""
        write_sdist(workshop.wheels, project, "demo")
        lines = tmp_path / "r.txt"
        lines.write_text(f"--only-binary {only.replace(' ', '')}\ndemo\n")
        workshop.install("demo", "--allow-source", consent, "--only-binary", only, code=code)
        workshop.install("-r", lines, "--allow-source", consent, code=code)

    def test_url_build_requirements(self, workshop: Workplace, tmp_path: Path) -> None:
        """Build requirements cannot be URLs."""
        wheel = build_wheel(tmp_path, "helper", "1.0")
        url = f"helper @ {wheel.as_uri()}"
        for at_once, later in (([url], []), ([], [url])):
            project = write_project(tmp_path / "p", "demo", requires=at_once, needs=later)
            result = workshop.install(project, code=1)
            assert "only you may request a URL" in result.err
            assert "it is needed to build" in result.err

    def test_mismatched_metadata(self, workshop: Workplace, project: Path) -> None:
        """A source distribution whose metadata is of another release is refused (F-94)."""
        write_sdist(workshop.wheels, project, "demo", "3.0", pkg_info="")
        result = workshop.install("demo", "--allow-source", "demo", code=3)
        assert "the archive is named demo 3.0" in result.err

    def test_build_requirements(self, workshop: Workplace, tmp_path: Path) -> None:
        """Build requirements are installed for the build only."""
        build_wheel(workshop.wheels, "helper", "1.0")
        build_wheel(workshop.wheels, "further", "1.0")
        hooks = "\nimport helper\n"
        project = write_project(
            tmp_path / "p", "demo", requires=["helper"], needs=["further<2"], backend=hooks
        )
        workshop.install(project)
        assert set(workshop.packages()) == {"demo"}
        result = workshop.install(project, "--no-build-isolation", "--debug", code=1)
        assert "No module named 'helper'" in result.err

    @pytest.mark.parametrize("helpers", [1, 6])
    def test_slow_index(self, helpers: int, workshop: Workplace) -> None:
        """Prefetching and a build cannot wait for each other."""
        names = [f"helper-{number}" for number in range(helpers)]
        for name in names:
            build_wheel(workshop.wheels, name, "1.0", requires=["plain"])
        project = write_project(
            workshop.folder / "p", "demo", requires=names, dynamic=True, dependencies=["plain"]
        )
        write_sdist(workshop.wheels, project, "demo", "1.0", pkg_info="")
        build_wheel(workshop.wheels, "app", "1.0", requires=["demo"])
        workshop.index.faults.delay.update(
            {f"/simple/{name}/": 0.2 for name in (*names, "app", "demo", "plain")}
        )
        workshop.install("app", "--allow-source", "demo")
        assert set(workshop.packages()) == {"app", "demo", "plain"}

    def test_missing_build_requirement(self, workshop: Workplace, tmp_path: Path) -> None:
        """The error about a missing build requirement names the project that is built."""
        project = write_project(tmp_path / "p", "demo", requires=["nothing-like-it"])
        result = workshop.install(project, code=3)
        assert "nothing-like-it was not found in any index" in result.err
        assert f"it is needed to build {project}" in result.err
        write_sdist(workshop.wheels, write_project(tmp_path / "h", "helper"), "helper")
        project = write_project(tmp_path / "q", "demo", requires=["helper"])
        assert "[source-build-not-allowed]" in workshop.install(project, code=3).err
        workshop.install(project, "--allow-source", "helper")

    def test_rules_for_build_requirements(self, workshop: Workplace, tmp_path: Path) -> None:
        """Hashes, constraints and --offline apply to build requirements."""
        build_wheel(workshop.wheels, "helper", "1.0")
        build_wheel(workshop.wheels, "helper", "2.0")
        project = write_project(tmp_path / "p", "demo", requires=["helper"])
        path = write_sdist(tmp_path, project, "demo")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        lines = tmp_path / "r.txt"
        lines.write_text(f"{path} --hash=sha256:{digest}\n")
        result = workshop.install("-r", lines, "--require-hashes", code=1)
        assert "hashes are required, and helper has none" in result.err
        assert "it is needed to build" in result.err
        (tmp_path / "c.txt").write_text("helper<2\n")
        workshop.install(path, "-c", tmp_path / "c.txt")
        assert workshop.index.requests_for("helper-1.0-py3-none-any.whl")
        assert not workshop.index.requests_for("helper-2.0-py3-none-any.whl")
        result = workshop.install(
            "--offline", "--cache-dir", tmp_path / "empty", "--force-reinstall", path, code=5
        )
        assert "it is needed to build" in result.err

    def test_circular_build_requirement(self, workshop: Workplace, tmp_path: Path) -> None:
        """A project that requires itself for its build is an error."""
        project = write_project(tmp_path / "p", "demo", requires=["demo"])
        write_sdist(workshop.wheels, project, "demo")
        result = workshop.install("demo", "--allow-source", "demo", code=1)
        assert "needs itself to be built" in result.err


class TestBrokenBackends:
    """Failing backends, after which nothing is installed."""

    @pytest.mark.parametrize(
        ("hooks", "words"),
        [
            ("\ndef build_wheel(*a, **k):\n    print('so long'); sys.exit(3)\n", "so long"),
            ("\ndef build_wheel(*a, **k):\n    raise RuntimeError('no luck')\n", "no luck"),
            ("\ndef build_wheel(*a, **k):\n    os.kill(os.getpid(), 9)\n", "ended by signal 9"),
            (
                "\ndef build_wheel(*a, **k):\n    return 'none.whl'\n",
                "did not put the wheel none.whl into",
            ),
            (
                "\ndef build_wheel(*a, **k):\n    return '../../x.whl'\n",
                "did not put the wheel x.whl into",
            ),
            (
                "\ndef build_wheel(*a, **k):\n    pass\n",
                "its backend returned no file name of a wheel",
            ),
            (
                "\ndef get_requires_for_build_wheel(*a):\n    return [1]\n",
                "return a list of requirements",
            ),
            (
                "\ndef get_requires_for_build_wheel(*a):\n    return 'abc'\n",
                "return a list of requirements",
            ),
            ("\ndef build_wheel(f, *a, **k):\n    return write(f, 'x.whl', records())\n", "x.whl"),
            ("\nNAME = 'other'\n", "METADATA has the name 'other'"),
            (
                "\nNAME = 'other'; STEM = 'other-1.0'; INFO = STEM + '.dist-info'\n",
                "built a wheel of other 1.0",
            ),
            ("\nSTEM = 'demo-2.0'\n", "wheel of demo 2.0"),
            ("\nVERSION = '2.0'\n", "METADATA has the version '2.0'"),
            ("\nINFO = 'demo-1.0.dist-infos'\n", "an invalid wheel"),
            (
                BACKEND_WITH_UNRECORDED_FILE,
                "an invalid wheel",
            ),
            ("\ndel build_wheel\n", "build_wheel"),
            ("\nimport not_there\n", "not available|No module named"),
        ],
    )
    def test_failing_backend(
        self, hooks: str, words: str, workshop: Workplace, tmp_path: Path
    ) -> None:
        """The error has the end of the backend's output and names the log."""
        project = write_project(tmp_path / "p", "demo", backend=hooks)
        result = workshop.install(project, "--json", "--debug", code=1)
        assert result.error["code"] == "build-failed"
        text = json.dumps(result.error)
        assert any(one in text for one in words.split("|")), text
        assert not workshop.target.exists()
        if str(result.error["where"]).endswith(".log"):
            Path(result.error["where"]).unlink()

    def test_metadata_in_no_folder(self, workshop: Workplace, tmp_path: Path) -> None:
        """A backend that returns no folder for the metadata is an error of the backend."""
        hooks = "\ndef prepare_metadata_for_build_wheel(*a, **k):\n    pass\n"
        project = write_project(tmp_path / "p", "demo", dynamic=True, backend=hooks)
        result = workshop.install(project, "--json", code=1)
        assert result.error["code"] == "build-failed"
        assert "its backend returned no folder name for the metadata" in json.dumps(result.error)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[build-system]\n", "requires"),
            ("[build-system]\nrequires = 3\n", "requires"),
            ("[build-system]\nrequires = []\nbuild-backend = 'not_there'\n", "not_there"),
            ("[build-system]\nrequires = []\nbuild-backend = 'x'\nbackend-path = ['..']\n", ""),
            ("no toml at all", "pyproject.toml"),
        ],
    )
    def test_invalid_build_system(
        self, text: str, words: str, workshop: Workplace, tmp_path: Path
    ) -> None:
        """An invalid ``[build-system]`` table is an error of the project."""
        (tmp_path / "p").mkdir()
        (tmp_path / "p" / "pyproject.toml").write_text(text)
        result = workshop.install(tmp_path / "p", "--json", "--debug", code=1)
        assert result.error["code"] == "build-failed"
        assert words in json.dumps(result.error)

    def test_verbose(self, workshop: Workplace, tmp_path: Path) -> None:
        """The output of the backend is shown with -v only."""
        project = write_project(
            tmp_path / "p", "demo", backend="\nprint('hello from the backend')\n"
        )
        assert "hello from the backend" not in workshop.install(project).err
        assert "hello from the backend" in workshop.install(project, "-v").err

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 143)])
    def test_interrupt(
        self, number: signal.Signals, code: int, workshop: Workplace, tmp_path: Path
    ) -> None:
        """Ctrl-C or a closed terminal ends a hanging backend with its children. No file remains."""
        hooks = (
            "\ndef build_wheel(*a, **k):\n"
            "    import signal, subprocess, time\n"
            "    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            "    with open(os.path.join(HERE, 'pids.new'), 'w') as file:\n"
            "        file.write(f'{os.getpid()} {child.pid}')\n"
            "    os.rename(os.path.join(HERE, 'pids.new'), os.path.join(HERE, 'pids'))\n"
            "    time.sleep(600)\n"
        )
        project = write_project(tmp_path / "p", "demo", backend=hooks)
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        words = [sys.executable, "-m", "wheelfit", "install", "--no-index", "--target"]
        process = subprocess.Popen(
            [*words, workshop.target, project],
            env={**os.environ, "TMPDIR": str(scratch)},
            stderr=subprocess.PIPE,
            # Whoever started the tests may ignore it, as nohup does.
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509
        )
        until(lambda: (project / "pids").exists() or process.poll() is not None)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code, errors
        for pid in map(int, (project / "pids").read_text().split()):
            until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
        assert not list(scratch.glob("wheelfit-*"))


def test_explain(workshop: Workplace, project: Path) -> None:
    """A folder can be explained before it is built."""
    said = workshop.install(project, "--json", command="explain").object["projects"][0]
    assert (said["name"], said["version"]) == ("demo", "1.0")
    assert said["chosen"]["filename"] == said["candidates"][0]["filename"] == str(project)
    assert f"{project}: " in workshop.install(project, "-v", command="explain").out
    assert count(project) == 0


def test_commands_that_execute_no_code(
    workshop: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that do not install, lock or build execute no code of a folder."""
    mark = tmp_path / "it ran"
    poison = f"open({str(mark)!r}, 'w').close()\n"
    project = write_project(tmp_path / "p", "demo", dynamic=True, backend=poison)
    (project / "setup.py").write_text(poison)
    monkeypatch.chdir(project)
    index = ["-i", workshop.index.url]
    for words in (
        ["explain", *index, "."], ["explain", *index, "--all", "."],
        ["explain", *index, "--with-deps", "."], ["explain", *index, "-r", "pyproject.toml"],
        ["install", *index, "--dry-run", "."], ["install", *index, "--dry-run", "-e", "."],
        ["lock", *index], ["lock", *index, "-r", "pyproject.toml"],
        ["tree", "."], ["sync", "."], ["sync", ".", "--dry-run"], ["export", "."],
        ["bundle", ".", "-o", "bundled"], ["check", "."], ["wheel", "check", "."],
        ["wheel", "inspect", "."], ["wheel", "show", "."], ["matrix", "."],
        ["init", ".", "--dry-run"], ["init", ".", "--static", "x.y=z", "--variant", "a=x::y::z"],
        ["publish", ".", "--dry-run"], ["index", "check", "."], ["index", "generate", "."],
        ["config", "show"], ["doctor"], ["list"], ["bridges"], ["providers"],
    ):  # fmt: skip
        main(words)
        assert not mark.exists(), words


def test_build_for_another_machine(workshop: Workplace, project: Path) -> None:
    """Nothing is built for another machine."""
    result = workshop.install("--for", "windows-x86_64", project, code=2)
    assert "which is another machine" in result.err


def test_invalid_options(workshop: Workplace, project: Path) -> None:
    """A config setting without a value and an invalid name are usage errors."""
    assert "sets nothing" in workshop.install("-C", "fast", project, code=2).err
    result = workshop.install("--allow-source", "a,b", "plain", code=2)
    assert "is not a valid name" in result.err
