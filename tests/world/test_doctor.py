"""What ``doctor`` says of the indexes of owners, on the internet and without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from world.internet import World
from world.registries import LINUX, wheels

pytestmark = pytest.mark.integration

BUILD = "2.14.1+cu126"
ORIGIN = f"torch {BUILD} (cu126) comes from https://download.pytorch.org/whl/cu126"


@pytest.fixture
def world(new_world: Callable[[], World]) -> World:
    """Return a world with torch of PyTorch's index, installed for a GPU."""
    world = new_world()
    world.registry.add(wheels("torch", "2.15.0", LINUX))
    world.pytorch.add("whl/cu126", wheels("torch", BUILD, LINUX))
    words = ("install", "torch", "--for", "cuda-12.2-sm90", "--no-deps")
    world.run(*words, "--target", str(world.folder / "target"))
    return world


def examined(world: World) -> tuple[dict[str, Any], str]:
    """Return the report of ``doctor``, as data and in words."""
    where = ("--target", str(world.folder / "target"), "--ignore", "unsupported-here")
    report = json.loads(world.run("doctor", *where, "--json").stdout)
    return report, " ".join(world.run("doctor", *where).stdout.split())


def of_pytorch(said: dict[str, Any]) -> dict[str, Any]:
    """Return the lines about PyTorch's index."""
    found: dict[str, Any] = next(owner for owner in said["owners"] if owner["family"] == "pytorch")
    return found


def test_without_asking(world: World) -> None:
    """It says what counts and where torch is from, and asks nobody."""
    world.net.hosts.clear()
    said, words = examined(world)
    assert of_pytorch(said)["active"] is True
    assert said["owned"] == [
        {
            "name": "torch",
            "version": BUILD,
            "family": "pytorch",
            "build": "cu126",
            "place": "https://download.pytorch.org/whl/cu126",
        }
    ]
    assert "owners' indexes replace the registry for" in words
    assert ORIGIN in words
    assert "answer" not in words


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("bridges = []\n", "bridges is set to []; `wheelfit config show --origin` shows where"),
        ('[[index]]\nname = "own"\nurl = "https://own.example/simple/"\n', "https://own.example"),
        ('bridges = ["none", "pytorch"]\n', None),
    ],
)
def test_why_not(world: World, settings: str, reason: str | None) -> None:
    """The reason why an index does not count is told."""
    path = world.folder / ".config/wheelfit/wheelfit.toml"
    path.parent.mkdir(parents=True)
    path.write_text(settings, "utf-8")
    said, words = examined(world)
    assert of_pytorch(said)["active"] is (reason is None)
    assert reason is None or reason in words
    assert ORIGIN in words


def test_a_mirror(world: World) -> None:
    """A mirror is what is named, without its password."""
    path = world.folder / ".config/wheelfit/wheelfit.toml"
    path.parent.mkdir(parents=True)
    path.write_text('bridges = ["pytorch@https://me:secret@own.example/whl"]\n', "utf-8")
    said, words = examined(world)
    assert said["owned"][0]["place"].endswith("own.example/whl/cu126")
    assert "secret" not in f"{said}{words}"


def test_settings_that_cannot_be_used(world: World) -> None:
    """A family that there is not is told, and everything else is looked at."""
    path = world.folder / ".config/wheelfit/wheelfit.toml"
    path.parent.mkdir(parents=True)
    path.write_text('bridges = ["pytroch"]\n', "utf-8")
    done = world.run("doctor", "--json")
    assert "unknown bridge 'pytroch'" in done.stderr
    report = json.loads(done.stdout)
    assert report["sources"]
    assert report["owners"] == []
