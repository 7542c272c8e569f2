"""What installers that know no variants get behind the proxy, on the registries of today."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from world.internet import World
from world.registries import LINUX, Wheel, wheels

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def world(new_world: Callable[[], World]) -> World:
    """Return a world with two releases of torch."""
    world = new_world()
    world.registry.add([Wheel("filelock", "3.1")])
    for version, builds in (("2.14.1", "cu126 cu132"), ("2.15.0", "cu130 cu132")):
        world.registry.add(wheels("torch", version, LINUX, requires=("filelock",)))
        for build in ("cpu", *builds.split()):
            found = wheels("torch", f"{version}+{build}", LINUX, requires=("filelock",))
            world.pytorch.add(f"whl/{build}", found)
    return world


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("cpu-x86_64-v3", "torch-2.15.0+cpu"),
        ("cuda-13.0-sm90", "torch-2.15.0+cu132"),
        ("cuda-12.2-sm70", "torch-2.14.1+cu126"),
    ],
)
@pytest.mark.parametrize("mode", ["--full", "--quiet"])
def test_pip(world: World, machine: str, expected: str, mode: str) -> None:
    """Pip takes the release and the build that wheelfit would take, in every mode."""
    words = ["pip", "install", "torch", "--dry-run", "--no-cache-dir"]
    words += ["--target", str(world.folder / machine)]
    done = world.run("run", mode, "--for", machine, "--", *words)
    assert f"Would install filelock-3.1 {expected}" in done.stdout


@pytest.mark.parametrize("mode", ["--full", "--quiet"])
def test_uv(world: World, uv: Path, mode: str) -> None:
    """So does uv, of which the proxy is the first index."""
    words = [str(uv), "pip", "install", "torch", "--dry-run", "--no-cache", "--no-config"]
    words += ["--target", str(world.folder / "uv")]
    done = world.run("run", mode, "--for", "cuda-12.2-sm70", "--", *words)
    assert "torch==2.14.1+cu126" in done.stderr
    assert "2.15.0" not in done.stderr


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (["--no-bridges"], ""),
        ([], "bridges = []\n"),
        ([], '[[index]]\nname = "own"\nurl = "https://pypi.org/simple/"\n'),
    ],
)
def test_without_owners(world: World, words: list[str], settings: str) -> None:
    """Where no owner's index counts, pip takes what its own indexes have."""
    path = world.folder / ".config/wheelfit/wheelfit.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(settings, "utf-8")
    command = ["pip", "install", "torch", "--dry-run", "--no-cache-dir"]
    command += ["--target", str(world.folder / "plain")]
    done = world.run("run", *words, "--for", "cuda-12.2-sm70", "--", *command)
    path.unlink()
    assert "Would install filelock-3.1 torch-2.15.0\n" in done.stdout


def test_an_index_of_the_command(world: World) -> None:
    """Of an index on pip's own command line, which goes before the proxy, people are told."""
    words = ["pip", "install", "torch", "--dry-run", "--no-cache-dir", "--target", "there"]
    command = [*words, "--index-url", "https://pypi.org/simple/"]
    done = world.run("run", "--for", "cuda-12.2-sm70", "--", *command)
    assert "pip queries its --index-url beside the proxy" in done.stderr
