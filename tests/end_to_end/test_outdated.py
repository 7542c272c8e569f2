"""``wheelfit list --outdated``: packages with a newer release for this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

BLAS = {"blas": {"library": ["openblas", "mkl"]}}


def document() -> dict[str, object]:
    """Return the document of a release with two variants."""
    return release_document(
        {
            "null": {},
            "mkl": {"blas": {"library": ["mkl"]}},
            "open": {"blas": {"library": ["openblas"]}},
        },
        static=BLAS,
        providers={},
        namespaces=["blas"],
    )


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve projects with old and new releases, some of them unsuitable."""
    place = tmp_path / "index"
    for version in ("1.0", "2.0"):
        build_release(place, "fast", version, document(), (None, "mkl", "open"))
    for version in ("1.0", "1.1", "1.2", "2.0rc1"):
        build_wheel(place, "plain", version)
    build_wheel(place, "same", "1.0")
    build_wheel(place, "foreign", "1.0")
    build_wheel(place, "foreign", "2.0", tag="cp27-none-any")
    build_wheel(place, "gone", "1.0")
    with RecordingIndex(place) as server:
        server.faults.yanked["plain-1.2-py3-none-any.whl"] = "broken"
        yield server


@pytest.fixture
def old(run: Runner, index: RecordingIndex, environment: Callable[[], Path]) -> Path:
    """Install old releases."""
    python = environment()
    words = ["--label", "fast=mkl", "fast==1.0", "plain==1.0", "same", "foreign==1.0", "gone"]
    run("install", "--python", python, "-i", index.url, *words)
    return python


def test_newer_releases(run: Runner, index: RecordingIndex, old: Path, tmp_path: Path) -> None:
    """Yanked releases, pre-releases and those for other Pythons are not proposed."""
    (tmp_path / "index" / "gone-1.0-py3-none-any.whl").unlink()
    result = run("list", "--outdated", "--python", old, "-i", index.url, "--no-cache-dir")
    assert result.out.splitlines() == [
        "Package  Version  Variant  Latest  Latest variant  Type",
        "-------  -------  -------  ------  --------------  -----",
        "fast     1.0      mkl      2.0     open            wheel",
        "plain    1.0               1.1                     wheel",
    ]
    assert "in no index: gone" in result.err
    words: list[str | Path] = ["--python", old, "-i", index.url, "--no-cache-dir", "--json"]
    report = run("list", "-o", "--pre", *words).object
    assert {package["name"]: package["latest"] for package in report["packages"]} == {
        "fast": "2.0",
        "plain": "2.0rc1",
    }
    assert report["unknown"] == ["gone"]
    report = run("list", "-o", "--variants", *words).object
    assert [package["name"] for package in report["packages"]] == ["fast"]


def test_up_to_date(run: Runner, index: RecordingIndex, environment: Callable[[], Path]) -> None:
    """An empty or up-to-date environment has an empty list."""
    python = environment()
    assert run("list", "--outdated", "--python", python, "-i", index.url).out == ""
    run("install", "--python", python, "-i", index.url, "plain", "same")
    assert run("list", "--outdated", "--python", python, "-i", index.url).out == ""


def test_unreachable_index(run: Runner, index: RecordingIndex, old: Path) -> None:
    """One unreadable page is a warning; if all are unreadable it is an error."""
    words: list[str | Path] = ["--python", old, "-i", index.url, "--no-cache-dir", "--retries", "0"]
    index.faults.status["/simple/plain/"] = 500
    result = run("list", "--outdated", *words)
    assert "the releases of plain could not be read" in result.err
    assert "fast" in result.out
    index.faults.status["*"] = 500
    error = run("list", "--outdated", *words, "--json", code=5).error
    assert error["exit_code"] == 5


def test_plain_list(run: Runner, index: RecordingIndex, old: Path) -> None:
    """``list`` without the option sends no requests."""
    asked = len(index.requests)
    assert "fast" in run("list", "--python", old, "-i", index.url).out
    assert len(index.requests) == asked
