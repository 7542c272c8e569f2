"""Wheels are made, and that is interrupted at each system call, or fails there."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from faults.scene import Scene, Step
from faults.trials import spread

from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.usefixtures("stepping")

SOME_OR_MANY = pytest.mark.parametrize(
    "most", [8, pytest.param(24, marks=pytest.mark.faults_long)], ids=["some", "many"]
)
"""At how many of its calls a command meets an accident."""
STATIC = ("--static", "blas :: library :: openblas, mkl", "-p", "blas :: library :: mkl")
NAMES = ("one", "two", "three")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Make a stage with three wheels."""
    scene = Scene(tmp_path / "scene")
    for name in NAMES:
        build_wheel(scene.state / "in", name, "1.0", files={f"{name}.py": "x = 1\n" * 50})
    (scene.state / "out").mkdir()
    return scene


def digests(folder: Path) -> dict[str, str]:
    """Return the hash of each wheel in a folder, by name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.whl")
    }


def making(scene: Scene) -> list[str | Path]:
    """Return the command that makes a variant of each wheel."""
    folders = (scene.state / "in", "-o", scene.state / "out")
    return ["wheel", "make", *folders, *STATIC, "--label", "mkl"]


def try_everywhere(scene: Scene, step: Callable[[int], Step], most: int) -> tuple[int, int]:
    """Let the making meet an accident at many of its calls.

    Returns how often it did, and how often not all wheels were there then.
    """
    out, words = scene.state / "out", making(scene)
    sources = digests(scene.state / "in")
    made = scene.run(*words, step=Step())
    assert made.code == 0, made
    wanted = digests(out)
    fired = incomplete = 0
    for number in spread(len(made.calls), most, 1):
        for path in out.glob("*.whl"):
            path.unlink()
        ended = scene.run(*words, step=step(number))
        fired += ended.fired
        found = digests(out)
        assert found.items() <= wanted.items(), (number, ended)
        assert digests(scene.state / "in") == sources
        incomplete += found != wanted
        if ended.code > 0:  # a process that was killed cannot tidy up
            assert not found, ended
            assert "Traceback" not in ended.err
    # Whatever was left behind, the next one makes all of them and leaves nothing else.
    again = scene.run(*words, "--overwrite")
    assert again.code == 0, again
    assert digests(out) == wanted
    assert not [path for path in out.iterdir() if path.name.startswith(".wheelfit")]
    return fired, incomplete


@SOME_OR_MANY
def test_killed(scene: Scene, figures: Callable[[str], None], most: int) -> None:
    """B-31: killed anywhere, a wheel that has its name is whole; the sources are as before."""
    fired, incomplete = try_everywhere(scene, Step, most)
    figures(f"wheels made, killed    {fired} times, {incomplete} times not all were there")
    assert fired >= most * 5 // 6
    assert incomplete


@SOME_OR_MANY
def test_full_disk(scene: Scene, figures: Callable[[str], None], most: int) -> None:
    """B-31: where a call fails for want of room there is an error and no wheel, or all of them."""
    step = partial(Step, act="fail", errno=errno.ENOSPC)
    fired, incomplete = try_everywhere(scene, step, most)
    figures(f"wheels made, disk full {fired} times, {incomplete} times none was there")
    assert fired >= most * 5 // 6
    assert incomplete


@SOME_OR_MANY
def test_killed_in_place(scene: Scene, most: int) -> None:
    """B-31: a wheel that is written over itself is the old one or the new one, whenever it ends."""
    folder = scene.state / "in"
    relabel: list[str | Path] = ["wheel", "make", folder, *STATIC, "--label", "mkl"]
    scene.must(*relabel)
    for path in folder.glob("*-any.whl"):
        path.unlink()
    old = digests(folder)
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    words = [*relabel[:3], "--static", "blas :: library :: mkl, openblas", *STATIC[2:]]
    words += ["--label", "mkl"]
    made = scene.run(*words, step=Step())
    assert made.code == 0, made
    new = digests(folder)
    assert new.keys() == old.keys()
    mixed = 0
    for number in spread(len(made.calls), most, 1):
        for path, content in kept.items():
            path.write_bytes(content)
        ended = scene.run(*words, step=Step(number))
        found = digests(folder)
        assert found.keys() == old.keys(), ended
        for name, digest in found.items():
            assert digest in (old[name], new[name]), (name, ended)
        mixed += found not in (old, new)
    assert mixed <= 5  # only between the renames at the very end
