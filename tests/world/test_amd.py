"""AMD's own torch, with all that it needs, from AMD's index."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest
from world.internet import World
from world.registries import Wheel
from world.table import fill

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="a source distribution is built for Linux"),
]

INDEX = "https://repo.amd.com/rocm/whl-multi-arch"
CONSENT = ("--allow-source", "rocm")


@pytest.fixture
def world(new_world: Callable[[], World]) -> World:
    """Return the whole world, as a machine with an MI300X sees it."""
    world = new_world()
    fill(world, claims_sizes=False)
    world.variables = {"AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH": "gfx942"}
    return world


def installed(world: World, *words: str) -> dict[str, str]:
    """Install something, and return what is there: versions by name."""
    target = str(world.folder / "target")
    world.run("install", *words, "--target", target)
    listed = json.loads(world.run("list", "--json", "--target", target).stdout)["packages"]
    return {one["name"]: one["version"] for one in listed}


def test_the_whole_tree(world: World) -> None:
    """With consent to build `rocm` all of it is installed, with the code for one GPU."""
    found = installed(world, "torch", "torchvision", "torchaudio", *CONSENT)
    assert found == {
        "torch": "2.14.0+rocm7.14.0",
        "torchvision": "0.29.0+rocm7.14.0",
        "torchaudio": "2.11.0+rocm7.14.0",
        "triton": "3.8.0+rocm7.14.0",
        "amd-torch-device-gfx942": "2.14.0+rocm7.14.0",
        "amd-torchvision-device-gfx942": "0.29.0+rocm7.14.0",
        "rocm": "7.14.0",
        "rocm-sdk-core": "7.14.0",
        "rocm-sdk-libraries": "7.14.0",
        "rocm-sdk-device-gfx942": "7.14.0",
    }
    fetched = [url for url in world.net.requests if url.endswith((".whl", ".tar.gz"))]
    assert all(url.startswith(INDEX) for url in fetched)
    again = world.run("install", "torch", *CONSENT, "--target", str(world.folder / "target"))
    assert "nothing to do" in again.stdout


def test_without_consent(world: World) -> None:
    """Nothing is built unasked: the newest torch of PyTorch's index is taken, and how is said."""
    done = world.run("install", "torch", "--target", str(world.folder / "target"))
    assert "installed torch 2.13.0+rocm7.2 (rocm7.2)" in done.stdout
    assert "--allow-source rocm builds it" in done.stderr


def test_a_gpu_of_which_only_amd_has_builds(world: World) -> None:
    """Where the processor is all that is left without consent, that is said."""
    world.variables = {"AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH": "gfx1103"}
    done = world.run("install", "torch", "--target", str(world.folder / "target"))
    assert "installed torch 2.15.0+cpu" in done.stdout
    assert "torch 2.14.0+rocm7.14.0 has a build for that of this machine, but needs" in done.stderr
    assert "--allow-source rocm builds it" in done.stderr


def test_out_of_reach(world: World) -> None:
    """Without AMD's index nothing that lives there comes from the registry."""
    for name in ("rocm", "rocm-sdk-libraries", "rocm-sdk-device-gfx942"):
        world.registry.add([Wheel(name, "99.0")])
    del world.net.hosts["repo.amd.com"]
    words = ("torch", *CONSENT, "--retries", "0")
    found = installed(world, *words)
    assert found == {"torch": "2.13.0+rocm7.2", "triton-rocm": "3.7.1"}
    assert not any("pypi.org/simple/rocm" in url for url in world.net.requests)


def test_nobody_else_asks_amd(world: World) -> None:
    """On a machine without such a GPU `triton` is the registry's, and AMD is not asked."""
    assert world.choose("h100-580", "torch", "triton").chosen["triton"] == "3.9.0 (plain)"
    assert not any("amd.com" in url for url in world.net.requests)
