"""``wheelfit add`` and ``wheelfit remove``: a project with its lock and environment."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from programs import until
from projects.writing import write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

PROJECT = f"""\
[project]
name = "demo"
version = "1"
requires-python = ">=3.11"
# what it needs
dependencies = ["lib"]  # any

[tool.wheelfit]
platform = ["linux-x86_64"]
python-version = ["{sys.version_info.major}.{sys.version_info.minor}"]
"""


class Desk:
    """A project with a virtual environment and an index."""

    def __init__(self, run: Runner, folder: Path, python: Path, index: RecordingIndex) -> None:
        self._run = run
        self.folder = folder
        self.python = python
        self.index = index
        self.file = folder / "pyproject.toml"
        self.lock = folder / "pylock.toml"
        self.file.write_text(PROJECT)

    def run(self, command: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Run a command on the project and the environment."""
        where: list[str | Path] = [] if "--frozen" in words else ["--python", self.python]
        return self._run(command, "-i", self.index.url, *where, *words, code=code)

    def installed(self) -> dict[str, str]:
        """Return the packages of the environment."""
        packages = self._run.installed("--python", self.python).items()
        return {name: package["version"] for name, package in packages}

    def state(self) -> tuple[bytes, bytes | None, dict[str, str]]:
        """Return the bytes of both files, and the installed packages."""
        lock = self.lock.read_bytes() if self.lock.exists() else None
        return self.file.read_bytes(), lock, self.installed()


@pytest.fixture
def desk(
    environment: Callable[[], Path],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bare_environment: None,
) -> Iterator[Desk]:
    """Return a project with one dependency, and an index with more."""
    del bare_environment
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    place = tmp_path / "index"
    for version in ("1.0", "2.0"):
        build_wheel(place, "lib", version)
    build_wheel(place, "app", "1.5", requires=("lib<2", "part"))
    build_wheel(place, "app", "2.0rc1")
    build_wheel(place, "part", "3.0+local")
    build_wheel(place, "tool", "4.0")
    with RecordingIndex(place) as index:
        yield Desk(Runner(capsys), folder, environment(), index)


def test_add_and_remove(desk: Desk) -> None:
    """The locked version becomes the lower bound; packages no longer needed are removed."""
    result = desk.run("add", "app")
    assert desk.file.read_text() == PROJECT.replace('["lib"]', '["lib", "app>=1.5"]')
    assert desk.installed() == {"app": "1.5", "lib": "1.0", "part": "3.0+local"}
    assert "added app>=1.5 to the dependencies of the project" in result.out
    assert result.err.count("Resolved 3 packages") == 1
    assert "is up to date" in desk.run("lock", "--check").out
    result = desk.run("remove", "APP")
    assert desk.file.read_text() == PROJECT
    assert desk.installed() == {"lib": "1.0"}
    assert "removed app>=1.5 from the dependencies" in result.out


def test_remove_an_editable_project(desk: Desk) -> None:
    """The locked version is removed, though it refers to a source tree."""
    write_project(desk.folder.parent / "ed", "ed")
    table = '[tool.wheelfit.sources]\ned = { path = "../ed", editable = true }\n'
    other = '\n[tool.uv.sources]\n# where others are\nother = { path = "../other" }\n'
    uv = f'{other}Ed = {{ path = "../ed" }}  # mine\n'
    desk.file.write_text(PROJECT.replace('["lib"]', '["lib", "ed"]') + "\n" + table + uv)
    desk.run("lock")
    desk.run("sync", "--allow-source", "ed")
    assert set(desk.installed()) == {"lib", "ed"}
    desk.run("remove", "ed")
    assert set(desk.installed()) == {"lib"}
    assert desk.file.read_text() == PROJECT + other


def test_shared_source(desk: Desk) -> None:
    """The source of a package is kept while another list names it."""
    table = '\n[tool.uv.sources]\ntool = { index = "own" }\n'
    groups = '\n[dependency-groups]\ndev = ["tool"]\n'
    index = f'\n[[tool.uv.index]]\nname = "own"\nurl = "{desk.index.url}"\n'
    text = PROJECT.replace('["lib"]', '["lib", "tool"]') + groups + table + index
    desk.file.write_text(text)
    desk.run("remove", "tool", "--no-sync")
    assert table in desk.file.read_text()
    desk.run("remove", "--group", "dev", "tool", "--no-sync")
    assert "[tool.uv.sources]" not in desk.file.read_text()


def test_groups_and_extras(desk: Desk) -> None:
    """A group or an extra is created, locked, and installed besides the rest."""
    desk.run("add", "--dev", "tool")
    desk.run("add", "--extra", "more", "part")
    assert desk.file.read_text().endswith(
        f"""python-version = ["{sys.version_info.major}.{sys.version_info.minor}"]
"""
    )
    assert '[dependency-groups]\ndev = [\n    "tool>=4.0",\n]\n' in desk.file.read_text()
    assert '[project.optional-dependencies]\nmore = [\n    "part>=3.0",\n]' in desk.file.read_text()
    assert desk.installed() == {"lib": "2.0", "tool": "4.0", "part": "3.0+local"}
    desk.run("remove", "--group", "dev", "tool")
    assert desk.installed() == {"lib": "2.0", "part": "3.0+local"}


def test_requirements_file(desk: Desk) -> None:
    """The requirements of a file are added with their versions and markers, and nothing else."""
    file = desk.folder / "requirements.txt"
    file.write_text("tool==4.0\n-r more.txt\n")
    (desk.folder / "more.txt").write_text("part; python_version > '3'\nlib<2\n")
    result = desk.run("add", "-r", file, "app")
    assert desk.installed() == {"app": "1.5", "lib": "1.0", "part": "3.0+local", "tool": "4.0"}
    assert "tool==4.0" in desk.file.read_text()
    assert "part>=3.0; python_version > '3'" in desk.file.read_text()
    assert "replaced lib with lib<2" in result.out
    assert "not its options" not in result.err
    before = desk.state()
    file.write_text("--pre\n-c limits.txt\nlib\n")
    (desk.folder / "limits.txt").write_text("lib<2\n")
    assert "only the requirements of" in desk.run("add", "-r", file, "--frozen").err
    (desk.folder / "part").mkdir()
    file.write_text("tool\n./part\n")
    assert f"{file}:2" in desk.run("add", "-r", file, code=2).err
    file.write_text("-e .\n")
    editable = desk.run("add", "-r", file, code=2).err
    assert "is editable" in editable
    assert "leave it out: it is the project itself" in editable
    assert "a project is not a requirements file" in desk.run("add", "-r", desk.file, code=2).err
    assert "no requirements were given" in desk.run("add", code=2).err
    assert desk.state() == before


def test_changed_specifier(desk: Desk) -> None:
    """The requirement is replaced, and lock and environment follow."""
    desk.run("add", "lib>=2")
    assert desk.installed() == {"lib": "2.0"}
    result = desk.run("add", "lib<2")
    assert "replaced lib>=2 with lib<2" in result.out
    assert desk.installed() == {"lib": "1.0"}
    assert "lib<2 is already in" in desk.run("add", "lib").out


def test_raw_and_prereleases(desk: Desk) -> None:
    """``--raw`` adds no bound; ``--pre`` permits a pre-release."""
    desk.run("add", "--raw", "--no-sync", "part")
    desk.run("add", "--pre", "--no-sync", "app")
    assert '["app>=2.0rc1", "lib", "part"]' in desk.file.read_text()
    assert desk.installed() == {}


def test_dry_run(desk: Desk) -> None:
    """A dry run shows the differences of file and lock, and writes nothing."""
    before = desk.state()
    result = desk.run("add", "--dry-run", "app")
    assert '+dependencies = ["lib", "app>=1.5"]  # any' in result.out
    assert "+ app 1.5" in result.out
    assert "Would lock 3 packages" in result.out
    assert desk.state() == before


def test_json(desk: Desk) -> None:
    """The report has the changes of file, lock and environment."""
    report = desk.run("add", "app", "--json").object
    assert report["changes"] == [{"name": "app", "before": None, "after": "app>=1.5"}]
    assert report["list"] == {"kind": "project", "name": None}
    assert report["lock"]["locks"][0]["written"] is True
    assert {one["name"] for one in report["sync"]["install"]} == {"app", "lib", "part"}
    report = desk.run("remove", "app", "--dry-run", "--json").object
    assert report["lock"]["locks"][0]["changes"][0]["after"] == []
    assert report["sync"] is None


def test_frozen(desk: Desk) -> None:
    """``--frozen`` edits only the file, without index or environment."""
    desk.run("add", "--frozen", "nosuch")
    assert '["lib", "nosuch"]' in desk.file.read_text()
    assert not desk.lock.exists()
    assert desk.index.requests == []


def test_subfolder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a subfolder the nearest project is edited, with its lock and settings."""
    below = desk.folder / "src" / "demo"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    desk.run("add", "app")
    assert "app>=1.5" in desk.file.read_text()
    assert "platform = [" in desk.file.read_text()
    assert desk.lock.read_text().count("sys_platform") <= 1


def test_project_option(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``--project`` the environment is that of the project, not of the current folder."""
    for folder in (tmp_path / "elsewhere", desk.folder):
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", folder / ".venv"], check=True
        )
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = desk._run
    run("add", "-i", desk.index.url, "--project", desk.folder, "app")
    assert run.installed("--python", desk.folder / ".venv").keys() == {"app", "lib", "part"}
    assert run.installed("--python", tmp_path / "elsewhere" / ".venv") == {}


@pytest.mark.parametrize("has_lock", [False, True])
def test_no_solution(desk: Desk, *, has_lock: bool) -> None:
    """Without a solution nothing is changed."""
    if has_lock:
        desk.run("add", "--no-sync", "tool")
    before, times = desk.state(), desk.file.stat().st_mtime_ns
    assert desk.run("add", "app", "lib>=2", "--json", code=3).error["code"] == "no-solution"
    assert desk.run("add", "nosuch", "--json", code=3).error["code"] == "project-not-found"
    assert (desk.state(), desk.file.stat().st_mtime_ns) == (before, times)


@pytest.mark.parametrize("has_lock", [False, True])
def test_failed_download(desk: Desk, *, has_lock: bool) -> None:
    """If a wheel is unavailable, file and lock are restored byte for byte."""
    if has_lock:
        desk.run("add", "tool")
    desk.file.chmod(0o640)
    before = desk.state()
    desk.index.faults.status["app-1.5-py3-none-any.whl"] = 404
    desk.run("add", "app", code=5)
    assert desk.state() == before
    assert desk.file.stat().st_mode & 0o777 == 0o640
    desk.index.faults.status.clear()
    desk.run("add", "app")
    assert "app" in desk.installed()
    assert desk.file.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_interrupt(desk: Desk) -> None:
    """Ctrl-C during downloads restores everything."""
    desk.run("add", "tool")
    before = desk.state()
    desk.index.faults.delay["part-3.0+local-py3-none-any.whl"] = 60
    words = ["add", "-i", desk.index.url, "--python", desk.python, "app"]
    with subprocess.Popen(
        [sys.executable, "-m", "wheelfit", *map(str, words)],
        cwd=desk.folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        until(lambda: b"app>=1.5" in desk.file.read_bytes())
        process.send_signal(signal.SIGINT)
        assert b"interrupted" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert desk.state() == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_concurrent_edit(desk: Desk) -> None:
    """Undoing does not overwrite what another program wrote into the file."""
    desk.index.faults.delay["part-3.0+local-py3-none-any.whl"] = 60
    words = ["add", "-i", desk.index.url, "--python", desk.python, "app"]
    with subprocess.Popen(
        [sys.executable, "-m", "wheelfit", *map(str, words)],
        cwd=desk.folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        until(lambda: b"app>=1.5" in desk.file.read_bytes())
        desk.file.write_text("# mine")
        process.send_signal(signal.SIGINT)
        assert b"changed by another program" in process.communicate(timeout=60)[1]
    assert desk.file.read_text() == "# mine"
    assert not desk.lock.exists()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("tool",), "it is in the group dev: give --group dev"),
        (("--dev", "lib"), "it is in the dependencies of the project"),
        (("libb",), "did you mean 'lib'?"),
        (("--extra", "none", "lib"), "it is in the dependencies of the project"),
        (("zzzzz",), "there are: lib"),
    ],
)
def test_remove_a_missing_name(desk: Desk, words: tuple[str, ...], hint: str) -> None:
    """The error names the list that has it, or similar names."""
    desk.run("add", "--frozen", "--dev", "tool")
    before = desk.state()
    error = desk.run("remove", *words, "--json", code=1).error
    assert error["code"] == "not-a-dependency"
    assert hint in error["hint"]
    assert desk.state() == before


@pytest.mark.parametrize(
    ("text", "words", "code", "reference", "part"),
    [
        ("[project\n", ("app",), 1, "file-problem", "not TOML"),
        ("[tool]\n", ("app",), 1, "invalid-project", "project: is missing"),
        ("[tool.poetry]\n", ("app",), 1, "invalid-project", "`poetry add`"),
        (
            '[project]\nname = "x"\ndynamic = ["version", "dependencies"]\n',
            ("app",),
            1,
            "invalid-project",
            "dependencies are dynamic",
        ),
        (PROJECT, (), 2, "usage", "no requirements were given"),
        (PROJECT, ("app==",), 1, "invalid-requirement", "expected"),
        (
            PROJECT,
            ("./app-1.5-py3-none-any.whl",),
            1,
            "file-problem",
            "the file or folder does not exist",
        ),
        (PROJECT, ("https://x.example/app-1.5-py3-none-any.whl",), 2, "usage", "'app @ https:"),
        (PROJECT, ("Demo",), 2, "usage", "demo is the project itself"),
        (PROJECT, ("--dev", "--extra", "x", "app"), 2, "usage", "name two lists"),
        (PROJECT, ("--group", "a b", "app"), 2, "usage", "is not a valid name"),
        (
            PROJECT,
            ("--lock", "lock.toml", "app"),
            2,
            "usage",
            "is not a valid name for a lock file",
        ),
        (PROJECT, ("--project", "nowhere", "app"), 1, "file-problem", "cannot be read"),
    ],
)
def test_wrong_input(
    desk: Desk, text: str, words: tuple[str, ...], code: int, reference: str, part: str
) -> None:
    """Invalid projects and arguments are errors, and nothing is written."""
    desk.file.write_text(text)
    before = desk.state()
    error = desk.run("add", *words, "--json", code=code).error
    assert error["code"] == reference
    assert part in json.dumps(error)
    assert desk.state() == before


def test_folder_without_a_name(desk: Desk) -> None:
    """The hint of the error is a command that adds the folder; naming it is consent to build it."""
    folder = write_project(desk.folder / "part", "own-part")
    for word in ("./part", "part/", f"own-part @ {folder.name}/../part", folder.as_uri()):
        error = desk.run("add", word, "--json", code=2).error
        command = error["hint"].partition("`wheelfit ")[2].rstrip("`")
        assert command == f"add 'own-part @ {folder.as_uri()}'"
    desk.run(*shlex.split(command))
    assert desk.installed()["own-part"] == "1.0"


def test_poetry_project(desk: Desk) -> None:
    """Tables that only Poetry edits are refused, and the error says so."""
    desk.file.write_text('[tool.poetry.dependencies]\napp = "*"\n')
    assert "`poetry remove`" in desk.run("remove", "app", "--json", code=1).error["hint"]
    assert "it is in" not in desk.run("remove", "--dev", "app", code=1).err


def test_named_twice(desk: Desk) -> None:
    """Of two requirements for a project the later counts, and its bound is kept."""
    result = desk.run("add", "--no-sync", "app", "part", "app==1.5")
    assert '["lib", "app==1.5", "part>=3.0"]' in desk.file.read_text()
    assert result.out.count("added app") == 1


def test_named_twice_with_markers(desk: Desk) -> None:
    """Of requirements with different markers, only those without versions get a bound."""
    desk.run("add", "--no-sync", "app; os_name != 'nt'", "app>1; os_name == 'nt'")
    assert "\"app>=1.5; os_name != 'nt'\", \"app>1; os_name == 'nt'\"" in desk.file.read_text()


def test_resolved_once(desk: Desk) -> None:
    """The bound of a bare name needs no second resolution, and no second request."""
    requests = []
    for words in (["--raw"], []):
        desk.index.clear_requests()
        desk.run("add", "--dry-run", "--no-cache-dir", *words, "app")
        requests.append(sorted(request.path for request in desk.index.requests))
    assert requests[0] == requests[1]


def test_no_project(desk: Desk) -> None:
    """Outside of a project there is an error."""
    desk.file.unlink()
    error = desk.run("add", "app", "--json", code=1).error
    assert "no pyproject.toml in this folder or in one above" in error["message"]


def test_read_only(desk: Desk) -> None:
    """A read-only file is refused before the resolution."""
    desk.file.chmod(0o444)
    error = desk.run("add", "app", "--json", code=1).error
    assert error["message"] == "the file is read-only"
    assert desk.index.requests == []


def test_no_environment(desk: Desk) -> None:
    """Without an environment there is no resolution."""
    desk.python = Path(os.devnull)
    desk.run("add", "app", code=1)
    assert desk.index.requests == []
    assert desk.file.read_text() == PROJECT


def test_consent_to_builds(desk: Desk) -> None:
    """Consent to build a package is given once; later changes run no code."""
    made = write_project(desk.folder.parent / "made", "made", dynamic=True)
    write_sdist(desk.folder.parent / "index", made, "made")
    desk.run("add", "made", code=3)
    desk.run("add", "made", "--allow-source", "made")
    desk.run("add", "tool")
    assert set(desk.installed()) == {"lib", "made", "tool"}
    desk.run("remove", "tool")
    assert set(desk.installed()) == {"lib", "made"}
