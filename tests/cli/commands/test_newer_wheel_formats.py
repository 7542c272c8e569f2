"""Wheels in a format of version 2.0 or later (PEP 777), which are named and left out."""

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
def wheels(tmp_path: Path) -> Path:
    """Write a wheel in the current format."""
    folder = tmp_path / "shelf"
    build_wheel(folder, "beans", "1.0")
    return folder


def add_newer(folder: Path) -> Path:
    """Write a wheel with the file name of a newer format."""
    wheel = build_wheel(folder / "new", "beans", "2.0")
    return wheel.rename(folder / f"{wheel.name}x")


def install(run: Runner, wheels: Path, *words: str, code: int = 0) -> dict[str, Any]:
    """Dry-run an installation from the folder."""
    sources = ("--no-index", "--find-links", wheels, "--target", wheels.parent / "to")
    result = run("install", "--dry-run", "--json", *sources, *words, code=code)
    return result.object


@pytest.mark.parametrize("by_name", [True, False], ids=["name", "metadata"])
def test_older_readable_release(run: Runner, wheels: Path, *, by_name: bool) -> None:
    """The newest readable release is installed, with a note about the newer one."""
    if by_name:
        add_newer(wheels)
    else:
        build_wheel(wheels, "beans", "2.0", metadata_extra=[STATED])
    report = install(run, wheels, "beans")
    assert [one["version"] for one in report["install"]] == ["1.0"]
    assert "2.0" in str(report["held_back"])


@pytest.mark.parametrize("by_name", [True, False], ids=["name", "metadata"])
def test_no_readable_release(run: Runner, wheels: Path, *, by_name: bool) -> None:
    """Without a readable release the error has the reason."""
    if by_name:
        add_newer(wheels)
    else:
        build_wheel(wheels, "beans", "2.0", metadata_extra=[STATED])
    error = install(run, wheels, "beans>=2", code=3)["error"]
    assert error["code"] == "no-compatible-wheel"
    assert ("reads 1.x" if by_name else "Wheel-Version 2.0") in str(error)


def test_version_in_the_wheel_file(run: Runner, wheels: Path) -> None:
    """A wheel with a newer Wheel-Version only in WHEEL is refused when it is opened."""
    wheel = build_wheel(wheels, "beans", "2.0")
    with zipfile.ZipFile(wheel) as archive:
        contents = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content.replace(b"Wheel-Version: 1.0", b"Wheel-Version: 2.0"))
    result = run("install", "--no-index", "--target", wheels.parent / "to", wheel, code=4)
    assert "Wheel-Version is 2.0" in result.err
    assert not (wheels.parent / "to").exists()


def test_explain(run: Runner, wheels: Path) -> None:
    """``explain`` shows the reason, and no machine selects the wheel."""
    add_newer(wheels)
    (wheels / "beans-1.0-py3-none-any.whl").unlink()
    sources = ("--no-index", "--find-links", wheels)
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
def test_wheel_file(run: Runner, wheels: Path, command: tuple[str, ...], code: int) -> None:
    """Commands with such a wheel as argument report the format."""
    result = run(*command, add_newer(wheels), code=code)
    assert NEWER_FORMAT in result.out + result.err


def test_static_index(run: Runner, wheels: Path) -> None:
    """A static index leaves the wheel out with a note."""
    add_newer(wheels)
    result = run("index", "generate", wheels, "--to", wheels.parent / "public")
    assert f"{NEWER} is left out: {NEWER_FORMAT}" in result.err
    assert not [*wheels.parent.glob("public/**/*.whlx")]


def test_upload() -> None:
    """A live index refuses the wheel by its name."""
    assert [one.message for one in check_name(NEWER)] == [NEWER_FORMAT]
