"""``wheelfit bundle`` of locks with source distributions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from cli.workplace import POISONED
from projects.writing import write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


class BundleFolder:
    """Locks and bundles in an empty folder."""

    def __init__(self, run: Runner, folder: Path, url: str) -> None:
        self._run = run
        self._url = url
        self.folder = folder

    def bundle(
        self, *requirements: str | Path, words: tuple[str, ...] = (), code: int = 0
    ) -> CommandResult:
        """Lock for Linux with this Python, and bundle the lock."""
        self._run("lock", "-i", self._url, "--platform", "linux-x86_64", *requirements)
        return self._run("bundle", "-o", "bundle", "pylock.toml", *words, code=code)

    def sync(self, *words: str, code: int = 0) -> CommandResult:
        """Install from the bundle, offline."""
        place = ("--offline", "--no-cache-dir", "--target", "target")
        return self._run("sync", "bundle/pylock.toml", *place, *words, code=code)

    def verify(self, code: int = 0) -> CommandResult:
        """Check the bundle."""
        return self._run("bundle", "--verify", "bundle", code=code)

    @staticmethod
    def entry(name: str) -> dict[str, object]:
        """Return the entry of a package in the lock of the bundle."""
        packages = tomllib.loads(Path("bundle/pylock.toml").read_text())["packages"]
        (entry,) = (package for package in packages if package["name"] == name)
        return dict(entry)


@pytest.fixture
def setup(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BundleFolder]:
    """Yield a folder with an index of a wheel and a source distribution that requires it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with RecordingIndex(tmp_path / "index") as index:
        build_wheel(tmp_path / "index", "plain", "1.0")
        made = write_project(tmp_path / "reader", "reader", dependencies=["plain"])
        write_sdist(tmp_path / "index", made, "reader")
        yield BundleFolder(run, tmp_path, index.url)


def test_source_distribution(setup: BundleFolder) -> None:
    """The archive is bundled by hash, and is built offline if the user allows it."""
    result = setup.bundle("reader")
    assert "1 wheel, 1 source" in result.out
    assert "reader-1.0.tar.gz must be built where it is installed" in result.err
    assert [path.name for path in Path("bundle/sources").iterdir()] == ["reader-1.0.tar.gz"]
    sdist = setup.entry("reader")["sdist"]
    assert isinstance(sdist, dict)
    assert sdist["path"] == "sources/reader-1.0.tar.gz"
    assert "url" not in sdist
    assert "--allow-source reader" in Path("bundle/README.txt").read_text()
    assert "--allow-source reader" in setup.sync(code=3).err
    setup.sync("--allow-source", "reader")
    assert Path("target/reader").is_dir()
    assert Path("target/plain").is_dir()


def test_no_code_is_executed(setup: BundleFolder) -> None:
    """Making and verifying a bundle builds nothing; a changed archive is reported."""
    made = write_project(setup.folder / "poisoned", "poisoned", backend=POISONED)
    path = write_sdist(Path.cwd(), made, "poisoned")
    setup.bundle(path)
    assert "is valid" in setup.verify().out
    archive = setup.entry("poisoned")["archive"]
    assert isinstance(archive, dict)
    assert archive["path"] == "sources/poisoned-1.0.tar.gz"
    Path("bundle/sources/poisoned-1.0.tar.gz").write_bytes(b"another")
    assert "sources/poisoned-1.0.tar.gz" in setup.verify(code=4).err


def test_json_report(setup: BundleFolder) -> None:
    """``--json`` lists source archives separately from wheels, also in a dry run."""
    for words in (("--dry-run", "--json"), ("--json",)):
        report = setup.bundle("reader", words=words).object
        assert [source["filename"] for source in report["sources"]] == ["reader-1.0.tar.gz"]
        assert [wheel["filename"] for wheel in report["wheels"]] == ["plain-1.0-py3-none-any.whl"]
        files = {package["name"]: package["filename"] for package in report["hosts"][0]["packages"]}
        assert files["reader"] == "reader-1.0.tar.gz"


def test_locked_folder(setup: BundleFolder) -> None:
    """A locked folder cannot be bundled; the hint says what to do."""
    write_project(Path("demo"), "demo")
    result = setup.bundle("./demo", code=3)
    assert "only a directory is locked" in result.err
    assert "build a wheel and lock it" in result.err
    assert not Path("bundle").exists()
