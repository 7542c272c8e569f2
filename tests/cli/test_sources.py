"""Where packages come from when several places are configured, on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.server.folder import FolderIndex
from wheelfit.sources.page import File
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel


class Places:
    """Two indexes, a folder of wheels, and what installs from them."""

    def __init__(
        self, run: Runner, folder: Path, first: RecordingIndex, later: RecordingIndex
    ) -> None:
        self._run = run
        self.folder = folder
        self.first = first
        self.later = later

    def versions(self, *words: str | Path, code: int = 0) -> dict[str, str]:
        """Return what an installation would take."""
        said = self._run(*self._words(words), "--json", code=code)
        return {one["name"]: one["version"] for one in said.object["install"]}

    def messages(self, *words: str | Path, code: int = 0) -> str:
        """Return what an installation tells."""
        return self._run(*self._words(words), code=code).err

    def _words(self, words: tuple[str | Path, ...]) -> list[str | Path]:
        both = ["-i", self.first.url, "--extra-index-url", self.later.url]
        where = self.folder / "target"
        return ["install", "--dry-run", "--no-cache-dir", "--target", where, *both, *words]


@pytest.fixture
def places(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """Serve ``plain`` 1 and 2 first, and 3 on the later index."""
    monkeypatch.chdir(tmp_path)
    for folder, versions in (("first", "12"), ("later", "3"), ("links", "")):
        (tmp_path / folder).mkdir()
        for version in versions:
            build_wheel(tmp_path / folder, "plain", version)
    build_wheel(tmp_path / "first", "private", "1")
    build_wheel(tmp_path / "later", "private", "9")
    with (
        RecordingIndex(tmp_path / "first") as first,
        RecordingIndex(tmp_path / "later") as later,
    ):
        yield Places(run, tmp_path, first, later)


def test_a_folder_hides_no_index(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-126: what a folder and the index have competes; of one version the folder's is taken."""
    build_wheel(places.folder / "links", "plain", "0.5")
    monkeypatch.setenv("PIP_FIND_LINKS", str(places.folder / "links"))
    assert places.versions("plain") == {"plain": "2"}
    assert places.versions("plain<1") == {"plain": "0.5"}
    build_wheel(places.folder / "links", "plain", "2")
    places.first.forget()
    assert "is the local file, not that of" not in places.messages("plain")
    assert "plain 2 is the local file, not that of" in places.messages("plain", "-v")


def test_strategies(places: Places) -> None:
    """The strategies of uv, under its names."""
    assert places.versions("plain") == {"plain": "2"}
    for strategy, taken in (
        ("first-index", "2"),
        ("unsafe-first-match", "2"),
        ("unsafe-best-match", "3"),
    ):
        assert places.versions("plain", "--index-strategy", strategy) == {"plain": taken}
    unsafe = ["--index-strategy", "unsafe-first-match"]
    assert places.versions("plain>2", *unsafe) == {"plain": "3"}
    assert places.versions("plain", "--compare-sources") == {"plain": "3"}


def test_what_was_not_looked_at_is_told(places: Places) -> None:
    """One warning names what a later index has, and the settings that change that."""
    said = places.messages("plain")
    assert said.count("an index that was not asked") == 1
    assert f"plain 3 ({places.later.url}" in said
    assert "--index-strategy" in said
    assert "[sources]" in said
    assert "not asked" not in places.messages("plain", "--index-strategy", "unsafe-best-match")


@pytest.mark.parametrize("strategy", ["first-index", "unsafe-best-match"])
def test_dependency_confusion(
    places: Places, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """A pinned name is never taken from another index, however high the version there."""
    settings = places.folder / "wheelfit.toml"
    settings.write_text(
        f'[[index]]\nname = "own"\nurl = "{places.first.url}"\nexplicit = true\n\n'
        '[sources]\nPrivate = { index = "own" }\nabsent = { index = "own" }\n'
    )
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    build_wheel(places.folder / "later", "absent", "1")
    turned = ["-i", places.later.url, "--index-strategy", strategy]
    assert places.versions("private", *turned) == {"private": "1"}
    assert not places.later.requests_for("/simple/private/")
    error = places.messages("absent", *turned, code=3)
    assert "absent" in error
    assert not places.later.requests_for("/simple/absent/")


def test_a_pin_to_nothing(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that no setting names is an error, and nothing is asked instead."""
    settings = places.folder / "wheelfit.toml"
    settings.write_text('[sources]\nprivate = { index = "own" }\n')
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    assert "not configured" in places.messages("private", code=1)


@pytest.mark.parametrize("tool", ["wheelfit", "uv"])
def test_indexes_of_a_project(places: Places, run: Runner, tool: str) -> None:
    """A project names indexes and pins for itself, in the tables of uv too."""
    above = f"tool.{tool}"
    (places.folder / "pyproject.toml").write_text(
        '[project]\nname = "demo"\nversion = "1"\ndependencies = ["private", "plain"]\n'
        f'[[{above}.index]]\nname = "own"\nurl = "{places.later.url}"\nexplicit = true\n'
        f'[{above}.sources]\nprivate = {{ index = "own" }}\n'
    )
    run("lock", "-i", places.first.url, "--no-cache-dir", "--platform", "linux-x86_64")
    lock = (places.folder / "pylock.toml").read_text()
    assert "private-9" in lock
    assert "plain-2" in lock


def test_config_shows_them(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``config show`` shows indexes and pins, without passwords, and who set them."""
    settings = tmp_path / "wheelfit.toml"
    settings.write_text(
        '[[index]]\nname = "own"\nurl = "https://me:secret@own.example/simple"\n'
        '[sources]\ntorch = { index = "own" }\n'
    )
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    shown = run("config", "show", "install", "--json")
    assert "secret" not in shown.out
    found = shown.object["settings"]
    assert found["index"]["value"][0]["name"] == "own"
    assert found["sources"]["value"] == {"torch": {"index": "own"}}
    assert found["sources"]["origin"][0]["where"].startswith(str(settings))


class TestTimesOfUpload:
    """What was uploaded since a moment is left out."""

    @pytest.fixture
    def dated(self, run: Runner, places: Places) -> Iterator[Places]:
        """Serve ``plain`` 1 of January and 2 of March."""
        times = {"1": "2026-01-15T12:00:00Z", "2": "2026-03-15T12:00:00Z"}

        def dated(file: File) -> File:
            return replace(file, upload_time=times.get(file.filename.split("-")[1]))

        with RecordingIndex(FolderIndex(places.folder / "first", revise=dated)) as index:
            yield Places(run, places.folder, index, index)

    @pytest.mark.parametrize(
        ("words", "version"),
        [
            (["--uploaded-prior-to", "2026-02-01"], "1"),
            (["--exclude-newer", "2026-03-15T12:00:00Z"], "1"),
            (["--exclude-newer", "2026-03-15T12:00:01Z"], "2"),
            (["--exclude-newer", "2026-02-01", "--exclude-newer-package", "plain=false"], "2"),
            (["--exclude-newer-package", "Plain=2026-02-01"], "1"),
        ],
    )
    def test_moments(self, dated: Places, words: list[str], version: str) -> None:
        """The moment itself is too late; a package may have another."""
        assert dated.versions("plain", *words) == {"plain": version}

    def test_lock_and_pip(
        self, dated: Places, run: Runner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A lock takes nothing newer either, nor does who is told so by pip's configuration."""
        where = ["-i", dated.first.url, "--no-cache-dir", "--platform", "linux-x86_64"]
        run("lock", "plain", *where, "--exclude-newer", "2026-02-01")
        assert "plain-1-" in (dated.folder / "pylock.toml").read_text()
        monkeypatch.setenv("PIP_UPLOADED_PRIOR_TO", "2026-02-01")
        assert dated.versions("plain") == {"plain": "1"}

    def test_no_times(self, places: Places) -> None:
        """An index without times of upload is named, and what it has is not taken unseen."""
        said = places.messages("plain", "--exclude-newer", "P7D", code=3)
        assert "does not tell when files were uploaded" in said
        assert "--uploaded-prior-to-package plain=false" in said

    def test_no_time(self, places: Places) -> None:
        """What is no time is an error that shows how to write one."""
        said = places.messages("plain", "--exclude-newer", "soon", code=2)
        assert "2026-01-31" in said
