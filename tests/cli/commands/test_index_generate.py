"""``wheelfit index generate``."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import Runner, tree
from server.generate.folders import build_release


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Write a release."""
    build_release(tmp_path / "dist")
    return tmp_path / "dist"


def test_generate_twice(run: Runner, dist: Path) -> None:
    """The first run reports the files, the second that nothing changed."""
    assert "4 files of 1 release, 1 project; 8 written" in run("index", "generate", dist).out
    assert "nothing has changed" in run("index", "generate", dist).out


def test_json_report(run: Runner, dist: Path, tmp_path: Path) -> None:
    """The JSON object lists the written files, or the refused ones."""
    report = run("index", "generate", dist, "--to", tmp_path / "public", "--json").object
    assert report["published"]
    assert {path.split("/")[0] for path in report["written"]} == {"files", "simple"}
    (dist / "fast-2.0-py3-none-any.whl").touch()
    report = run("index", "generate", dist, "--json", code=9).object
    assert not report["published"]
    assert report["excluded"] == ["fast-2.0-py3-none-any.whl"]


def test_refused_file(run: Runner, dist: Path) -> None:
    """A refused file exits with 9, with the reason and a remedy."""
    (dist / "fast-2.0-py3-none-any.whl").touch()
    result = run("index", "generate", dist, code=9)
    assert "unsound-archive" in result.out
    assert "nothing is published" in result.out
    result = run("index", "generate", dist, "--keep-going", code=9)
    assert "left out: fast-2.0-py3-none-any.whl" in result.out
    assert (dist / "simple/fast/index.html").exists()


def test_invalid_public_url(run: Runner, dist: Path) -> None:
    """An invalid --public-url is an error before anything is written."""
    result = run("index", "generate", dist, "--site", "--public-url", "wheels.example.org", code=2)
    assert "not an address of a server" in result.err
    login = "https://me:secret@wheels.example.org"
    result = run("index", "generate", dist, "--site", "--public-url", login, code=2)
    assert "has a login" in result.err
    assert "secret" not in result.err
    assert not (dist / "simple").exists()


def test_target_inside_the_folder(run: Runner, dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target inside the folder is not published itself."""
    monkeypatch.chdir(dist)
    for _ in range(2):
        result = run("index", "generate", ".", "--to", "public")
        assert "4 files of 1 release" in result.out
    assert "nothing has changed" in result.out


def test_single_release(run: Runner, dist: Path) -> None:
    """``--release`` publishes only that release."""
    build_release(dist, "other")
    run("index", "generate", dist, "--release", "fast==1.0")
    assert (dist / "simple" / "fast").exists()
    assert not (dist / "simple" / "other").exists()
    assert "is not a release" in run("index", "generate", dist, "--release", "fast", code=2).err
    assert "no file of" in run("index", "generate", dist, "--release", "fast==7", code=1).err


def test_empty_folder(run: Runner, dist: Path, tmp_path: Path) -> None:
    """An empty folder is refused without --allow-empty, so that no project is removed."""
    public, empty = tmp_path / "public", tmp_path / "empty"
    empty.mkdir()
    run("index", "generate", dist, "--to", public)
    before = tree(public / "simple")
    result = run("index", "generate", empty, "--to", public, code=1)
    assert "nothing to publish, and the index has 1 project" in result.err
    assert "--allow-empty" in result.err
    assert tree(public / "simple") == before
    run("index", "generate", empty, "--to", public, "--allow-empty")
    assert not (public / "simple" / "fast" / "index.html").exists()
    run("index", "generate", empty, "--to", public)


def test_first_run_on_an_empty_folder(run: Runner, tmp_path: Path) -> None:
    """The first run on an empty folder writes an empty index with a warning."""
    dist, public = tmp_path / "dist", tmp_path / "public"
    dist.mkdir()
    (dist / "fast.egg").write_bytes(b"")
    warning = f"{dist} has no wheels and no source distributions: the index is empty"
    for _ in range(2):  # also if nothing has changed since
        result = run("index", "generate", dist, "--to", public)
        assert "0 files of 0 releases, 0 projects" in result.out
        assert warning in " ".join(result.err.split())
    assert (public / "simple" / "index.html").exists()


def test_invalid_folders_and_urls(run: Runner, dist: Path, tmp_path: Path) -> None:
    """A missing folder and an unknown storage URL are errors."""
    assert "the folder does not exist" in run("index", "generate", tmp_path / "none", code=1).err
    for url in ("nothing://bucket", "s3://["):
        result = run("index", "generate", dist, "--to", url, code=1)
        assert "is not the URL of a storage" in result.err
    result = run("index", "generate", dist, "--to", "https://wheels.example.org/", code=1)
    assert "is not a storage that can be written to" in result.err
    assert "a query, as endpoint=https://storage.example.org" in result.err
    assert "****" not in result.err
    assert "endpoint=https://storage.example.org" in result.err


def test_target_named_simple(run: Runner, dist: Path, tmp_path: Path) -> None:
    """A target named simple is refused; the hint has its parent."""
    result = run("index", "generate", dist, "--to", tmp_path / "public" / "simple", code=2)
    assert f"--to {tmp_path / 'public'}" in result.err
    assert not (tmp_path / "public").exists()


def test_file_url(run: Runner, dist: Path, tmp_path: Path) -> None:
    """``file:`` URLs name folders."""
    run("index", "generate", dist, "--to", (tmp_path / "public").as_uri())
    assert (tmp_path / "public/simple/index.html").exists()
