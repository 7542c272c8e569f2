"""``--offline``: repeated installations without the server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli.running import Runner, tree

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

pytestmark = pytest.mark.usefixtures("own_settings")

DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)


@pytest.fixture
def url(run: Runner, tmp_path: Path) -> str:
    """Install from an index, lock, stop the index, and return its URL."""
    folder = tmp_path / "index"
    build_release(folder, "fast", "2.0", DOCUMENT, ["mkl"], requires=["plain>=1"])
    build_wheel(folder, "plain", "1.0")
    build_wheel(folder, "other", "1.0")
    with RecordingIndex(folder) as index:
        run("install", "-i", index.url, "--target", tmp_path / "first", "fast")
        (tmp_path / "pyproject.toml").write_text(
            '[project]\nname = "mine"\nversion = "1"\ndependencies = ["fast"]\n'
        )
        run("lock", "-i", index.url, "--project", tmp_path, "-o", tmp_path / "pylock.toml")
        return index.url


def again(run: Runner, tmp_path: Path, url: str, name: str = "again") -> dict[str, str]:
    """Install the same offline, and return the installed packages."""
    run("install", "--offline", "-i", url, "--target", tmp_path / name, "fast")
    return tree(tmp_path / name)


@pytest.mark.parametrize("gone", [None, "wheels-1", "unpacked-1"])
def test_cached_wheels(run: Runner, tmp_path: Path, url: str, gone: str | None) -> None:
    """Wheel files or unpacked wheels suffice, and pages of any age."""
    if gone is not None:
        shutil.rmtree(tmp_path / "cache" / gone)
    first = tree(tmp_path / "first")
    assert again(run, tmp_path, url).keys() == first.keys()
    assert again(run, tmp_path, url, "third").keys() == first.keys()


def test_lock(run: Runner, tmp_path: Path, url: str) -> None:
    """``sync --offline`` takes the locked files from the cache."""
    del url
    run("sync", "--offline", tmp_path / "pylock.toml", "--target", tmp_path / "synced")
    assert (tmp_path / "synced" / "fast-2.0.dist-info").is_dir()
    assert (tmp_path / "synced" / "plain-1.0.dist-info").is_dir()


def test_missing_wheel(run: Runner, tmp_path: Path, url: str) -> None:
    """A wheel that is not in the cache is named, and nothing is changed."""
    run("cache", "remove", "plain")
    words: list[str | Path] = [
        "install",
        "--offline",
        "-i",
        url,
        "--target",
        tmp_path / "again",
        "fast",
    ]
    error = run(*words, "--json", code=5).error
    assert error["code"] == "unreachable"
    assert "offline" in error["message"]
    assert error["where"].endswith("/plain-1.0-py3-none-any.whl")
    assert "--offline" in error["hint"]
    assert not (tmp_path / "again").exists() or not list((tmp_path / "again").glob("*.dist-info"))


def test_missing_page(run: Runner, tmp_path: Path, url: str) -> None:
    """A project that was never requested is named with its page."""
    words: list[str | Path] = [
        "install",
        "--offline",
        "-i",
        url,
        "--target",
        tmp_path / "again",
        "other",
    ]
    error = run(*words, "--json", code=5).error
    assert error["where"] == f"{url}other/"


def test_explain_and_dry_run(run: Runner, tmp_path: Path, url: str) -> None:
    """``explain`` and ``--dry-run`` work offline too."""
    run("explain", "--offline", "-i", url, "fast")
    report = run(
        "install", "--offline", "-i", url, "--target", tmp_path / "t", "--dry-run", "--json", "fast"
    ).object
    assert {one["name"] for one in report["install"]} == {"fast", "plain"}
    assert report["unknown_sizes"] == []
