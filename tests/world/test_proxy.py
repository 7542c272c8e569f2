"""What installers that know no variants get behind the proxy, on the registries of today."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world.internet import World
from world.registries import LINUX, Wheel, wheels


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
def test_pip(world: World, machine: str, expected: str) -> None:
    """Pip takes the release and the build that wheelfit would take."""
    words = ["pip", "install", "torch", "--dry-run", "--no-cache-dir"]
    words += ["--target", str(world.folder / machine)]
    done = world.run("run", "--full", "--for", machine, "--", *words)
    assert f"Would install filelock-3.1 {expected}" in done.stdout
