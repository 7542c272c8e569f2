"""``wheelfit export`` of locks with what must be built from source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from jsonschema import validate
from projects.writing import commit_all, write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration
SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "export.json"


class Desk:
    """Lock projects, and export the lock."""

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

    def said(self, *words: str) -> CommandResult:
        """Export the lock that is there."""
        return self._run("export", "pylock.toml", *words)

    def install(self, tool: Path | None, requirements: str = "requirements.txt") -> set[str]:
        """Let pip or another tool install the requirements; return what is there."""
        target = Path(f"target of {tool.name if tool else 'pip'}").absolute()
        words: list[str | Path] = [sys.executable, "-m", "pip", "install", "--no-cache-dir"]
        if tool is not None:
            words = [tool, "pip", "install", "--no-config", "--no-cache"]
            words += ["--python", sys.executable]
        completed = subprocess.run(
            [*words, "-r", requirements, "--target", target],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_INDEX_URL": self._index.url,
                "UV_DEFAULT_INDEX": self._index.url,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stderr
        return {path.name.partition("-")[0] for path in target.glob("*.dist-info")}


@pytest.fixture
def desk(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Serve a wheel and a source distribution; stand in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with RecordingIndex(tmp_path / "index") as index:
        build_wheel(tmp_path / "index", "plain", "1.0")
        made = write_project(tmp_path / "reader", "reader", dependencies=["plain"])
        write_sdist(tmp_path / "index", made, "reader")
        yield Desk(run, tmp_path, index)


def test_a_source_distribution(desk: Desk, uv: Path) -> None:
    """It is a version with the hash of the archive; pip and uv build that and nothing else."""
    text = desk.export("reader")
    lines = [line.partition(":")[0] for line in text.splitlines() if not line.startswith("#")]
    assert lines == ["plain==1.0 --hash=sha256", "reader==1.0 --hash=sha256"]
    assert desk.install(None) == {"plain", "reader"}
    assert desk.install(uv) == {"plain", "reader"}


def test_a_folder(desk: Desk, uv: Path) -> None:
    """It is a path from beside the file, and the rest are URLs, whose hashes pip takes there."""
    write_project(Path("demo"), "demo", dependencies=["plain"])
    text = desk.export("./demo")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == "./demo"
    assert lines[1].startswith("plain @ http://")
    assert "#sha256=" in lines[1]
    assert desk.install(None) == {"demo", "plain"}
    assert desk.install(uv) == {"demo", "plain"}


def test_an_editable_folder(desk: Desk) -> None:
    """``-e`` says so; the path leads there from the folder of the file."""
    write_project(desk.folder / "demo", "demo")
    Path("out").mkdir()
    text = desk.export("-e", desk.folder / "demo", to="out/requirements.txt")
    assert text.splitlines()[-1] == "-e ../../demo"


def test_a_repository(desk: Desk, uv: Path) -> None:
    """It is the locked commit, with the folder within it."""
    write_project(Path("repo", "python"), "demo")
    commit = commit_all(Path("repo"))
    address = Path("repo").absolute().as_uri()
    text = desk.export(f"demo @ git+{address}@main#subdirectory=python")
    assert text.splitlines()[-1] == f"demo @ git+{address}@{commit}#subdirectory=python"
    assert desk.install(None) == {"demo"}
    assert desk.install(uv) == {"demo"}


def test_an_archive(desk: Desk) -> None:
    """A named archive is a URL with its hash; another one in its place is refused by pip."""
    made = write_project(desk.folder / "made", "demo")
    path = write_sdist(Path.cwd(), made, "demo")
    text = desk.export(path)
    assert text.splitlines()[-1].startswith(f"demo @ {path.as_uri()}#sha256=")
    assert desk.install(None) == {"demo"}


def test_other_formats(desk: Desk) -> None:
    """A bill of materials and the licences name what is built, and that nobody has read it."""
    write_project(Path("demo"), "demo", dynamic=True)
    desk.export("./demo", "reader")
    report = desk.said("--json").object
    validate(report, json.loads(SCHEMA.read_text()))
    packages = {package["name"]: package for package in report["targets"][0]["packages"]}
    assert (packages["demo"]["source"], packages["demo"]["version"]) == ("directory", None)
    assert packages["demo"]["filename"] is None
    assert packages["reader"]["filename"] == "reader-1.0.tar.gz"
    document = desk.said("--format", "cyclonedx").out
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    assert str(desk.folder) not in document
    components = {component["name"]: component for component in json.loads(document)["components"]}
    assert components["demo"]["purl"] == "pkg:pypi/demo"
    assert components["reader"]["purl"] == "pkg:pypi/reader@1.0?file_name=reader-1.0.tar.gz"
    assert "must be built from source" in desk.said("--format", "licenses").err
