"""Wheels of a format from 2.0 on (PEP 777): named, left out, and never misread."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner

from wheelfit.core.filename import NEWER_FORMAT
from wheelfit.server.uploads.rules import check_name
from wheelfit.testing.wheels import build_wheel

STATED = ("Wheel-Version", "2.0")
NEWER = "beans-2.0-py3-none-any.whlx"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], bare_environment: None) -> Runner:
    """Return a runner of commands."""
    del bare_environment
    return Runner(capsys)


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Write a wheel of today's format."""
    folder = tmp_path / "shelf"
    build_wheel(folder, "beans", "1.0")
    return folder


def add_newer(folder: Path) -> Path:
    """Write a wheel whose name says that its format is a newer one."""
    wheel = build_wheel(folder / "new", "beans", "2.0")
    return wheel.rename(folder / f"{wheel.name}x")


def install(run: Runner, shelf: Path, *words: str, code: int = 0) -> dict[str, Any]:
    """Dry-run an installation from the shelf."""
    sources = ("--no-index", "--find-links", shelf, "--target", shelf.parent / "to")
    result = run("install", "--dry-run", "--json", *sources, *words, code=code)
    return result.object


@pytest.mark.parametrize("by_name", [True, False], ids=["name", "metadata"])
def test_older_release(run: Runner, shelf: Path, *, by_name: bool) -> None:
    """The newest release that can be read is installed, and one line says what is newer."""
    if by_name:
        add_newer(shelf)
    else:
        build_wheel(shelf, "beans", "2.0", metadata_extra=[STATED])
    report = install(run, shelf, "beans")
    assert [one["version"] for one in report["install"]] == ["1.0"]
    assert "2.0" in str(report["held_back"])


@pytest.mark.parametrize("by_name", [True, False], ids=["name", "metadata"])
def test_nothing_else(run: Runner, shelf: Path, *, by_name: bool) -> None:
    """The refusal has the reason."""
    if by_name:
        add_newer(shelf)
    else:
        build_wheel(shelf, "beans", "2.0", metadata_extra=[STATED])
    error = install(run, shelf, "beans>=2", code=3)["error"]
    assert error["code"] == "no-compatible-wheel"
    assert ("reads 1.x" if by_name else "Wheel-Version 2.0") in str(error)


def test_only_inside(run: Runner, shelf: Path) -> None:
    """A wheel that says so in WHEEL alone is refused when it is opened."""
    wheel = build_wheel(shelf, "beans", "2.0")
    with zipfile.ZipFile(wheel) as archive:
        contents = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content.replace(b"Wheel-Version: 1.0", b"Wheel-Version: 2.0"))
    result = run("install", "--no-index", "--target", shelf.parent / "to", wheel, code=4)
    assert "Wheel-Version is 2.0" in result.err
    assert not (shelf.parent / "to").exists()


def test_explained(run: Runner, shelf: Path) -> None:
    """``explain`` names it with the reason, and no machine takes it."""
    add_newer(shelf)
    (shelf / "beans-1.0-py3-none-any.whl").unlink()
    sources = ("--no-index", "--find-links", shelf)
    assert NEWER_FORMAT in str(run("explain", "--json", *sources, "beans", code=3).object)
    (release,) = run("explain", "--all", "--json", *sources, "beans").object["releases"]
    assert [row["selected_by"] for row in release["labels"]] == [[]]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("install", "--dry-run", "--target", "to"), 1),
        (("check",), 10),
        (("wheel", "show"), 1),
        (("wheel", "unmake"), 1),
        (("wheel", "repack"), 1),
        (("publish", "--dry-run", "--to", "http://127.0.0.1:9/"), 1),
        (("wheel", "inspect"), 1),
    ],
    ids=str,
)
def test_named(run: Runner, shelf: Path, command: tuple[str, ...], code: int) -> None:
    """A command that is given one says why it does nothing with it."""
    result = run(*command, add_newer(shelf), code=code)
    assert NEWER_FORMAT in result.out + result.err


def test_index(run: Runner, shelf: Path) -> None:
    """A static index names what it leaves out."""
    add_newer(shelf)
    result = run("index", "generate", shelf, "--to", shelf.parent / "public")
    assert f"{NEWER} is left out: {NEWER_FORMAT}" in result.err
    assert not [*shelf.parent.glob("public/**/*.whlx")]


def test_upload() -> None:
    """A live index refuses it by its name."""
    assert [one.message for one in check_name(NEWER)] == [NEWER_FORMAT]
