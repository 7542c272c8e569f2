"""``wheelfit export`` of locks with source distributions."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from programs import run_program
from projects.writing import commit_all, write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


class ExportFolder:
    """Locks and exports in an empty folder."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self._run = run
        self._index = index
        self.folder = folder

    def export(self, *requirements: str | Path, to: str = "requirements.txt") -> str:
        """Lock for Linux with this Python, and return the requirements for this machine."""
        place = ("-i", self._index.url, "--platform", "linux-x86_64")
        self._run("lock", *place, *requirements)
        self._run("export", "pylock.toml", "-o", to)
        return Path(to).read_text()

    def export_lock(self, *words: str) -> CommandResult:
        """Export the existing lock."""
        return self._run("export", "pylock.toml", *words)

    def install(self, tool: Path | None, requirements: str = "requirements.txt") -> set[str]:
        """Install the requirements with pip or another tool; return the installed names."""
        target = Path(f"target of {tool.name if tool else 'pip'}").absolute()
        words: list[str | Path] = [sys.executable, "-m", "pip", "install", "--no-cache-dir"]
        if tool is not None:
            words = [tool, "pip", "install", "--no-config", "--no-cache"]
            words += ["--python", sys.executable]
        settings = {"HOME": str(self.folder), "PIP_CONFIG_FILE": os.devnull}
        index = dict.fromkeys(("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), self._index.url)
        environ = {"PATH": os.environ["PATH"], **settings, **index}
        run_program(*words, "-r", requirements, "--target", target, env=environ)
        return {path.name.partition("-")[0] for path in target.glob("*.dist-info")}


@pytest.fixture
def setup(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExportFolder]:
    """Yield an empty folder with an index of a wheel and a source distribution."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with RecordingIndex(tmp_path / "index") as index:
        build_wheel(tmp_path / "index", "plain", "1.0")
        made = write_project(tmp_path / "reader", "reader", dependencies=["plain"])
        write_sdist(tmp_path / "index", made, "reader")
        yield ExportFolder(run, tmp_path, index)


def test_source_distribution(setup: ExportFolder, uv: Path) -> None:
    """A source distribution is a pinned version with its hash; pip and uv build it."""
    text = setup.export("reader")
    lines = [line.partition(":")[0] for line in text.splitlines() if not line.startswith("#")]
    assert lines == ["plain==1.0 --hash=sha256", "reader==1.0 --hash=sha256"]
    assert setup.install(None) == {"plain", "reader"}
    assert setup.install(uv) == {"plain", "reader"}


def test_folder(setup: ExportFolder, uv: Path) -> None:
    """A folder is a relative path; other packages are URLs with hashes, which pip accepts."""
    write_project(Path("demo"), "demo", dependencies=["plain"])
    text = setup.export("./demo")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == "./demo"
    assert lines[1].startswith("plain @ http://")
    assert "#sha256=" in lines[1]
    assert setup.install(None) == {"demo", "plain"}
    assert setup.install(uv) == {"demo", "plain"}


def test_editable_folder(setup: ExportFolder) -> None:
    """An editable folder has ``-e`` and a path relative to the file, quoted for pip."""
    for folder, line in (("demo", "-e ../../demo"), ("my demo", "-e '../../my demo'")):
        write_project(setup.folder / folder, "demo")
        Path("out").mkdir(exist_ok=True)
        text = setup.export("-e", setup.folder / folder, to="out/requirements.txt")
        assert text.splitlines()[-1] == line


def test_repository(setup: ExportFolder, uv: Path) -> None:
    """A repository is exported with the locked commit and its subdirectory."""
    write_project(Path("repo", "python"), "demo")
    commit = commit_all(Path("repo"))
    address = Path("repo").absolute().as_uri()
    text = setup.export(f"demo @ git+{address}@main#subdirectory=python")
    assert text.splitlines()[-1] == f"demo @ git+{address}@{commit}#subdirectory=python"
    assert setup.install(None) == {"demo"}
    assert setup.install(uv) == {"demo"}


def test_archive(setup: ExportFolder) -> None:
    """A local archive is a URL with its hash."""
    made = write_project(setup.folder / "made", "demo")
    path = write_sdist(Path.cwd(), made, "demo")
    text = setup.export(path)
    assert text.splitlines()[-1].startswith(f"demo @ {path.as_uri()}#sha256=")
    assert setup.install(None) == {"demo"}


def test_other_formats(setup: ExportFolder) -> None:
    """Bills of materials and licences list source distributions, with a note."""
    write_project(Path("demo"), "demo", dynamic=True)
    setup.export("./demo", "reader")
    report = setup.export_lock("--json").object
    packages = {package["name"]: package for package in report["targets"][0]["packages"]}
    assert (packages["demo"]["source"], packages["demo"]["version"]) == ("directory", None)
    assert packages["demo"]["filename"] is None
    assert packages["reader"]["filename"] == "reader-1.0.tar.gz"
    document = setup.export_lock("--format", "cyclonedx").out
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    assert str(setup.folder) not in document
    components = {component["name"]: component for component in json.loads(document)["components"]}
    assert components["demo"]["purl"] == "pkg:pypi/demo"
    assert components["reader"]["purl"] == "pkg:pypi/reader@1.0?file_name=reader-1.0.tar.gz"
    assert "must be built from source" in setup.export_lock("--format", "licenses").err
