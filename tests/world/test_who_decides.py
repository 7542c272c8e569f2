"""Who can forbid that the index of a project's owner counts, and where that is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from world.internet import World
from world.registries import LINUX, wheels

pytestmark = pytest.mark.integration

MACHINE = "cpu-x86_64-v3"
OWNER, REGISTRY = "2.14.1+cpu", "2.15.0"


@pytest.fixture
def world(new_world: Callable[[], World]) -> World:
    """Return a world in which the registry and the owner have a release of torch each."""
    world = new_world()
    world.registry.add(wheels("torch", REGISTRY, LINUX))
    world.pytorch.add("whl/cpu", wheels("torch", OWNER, LINUX))
    (world.folder / ".config/wheelfit").mkdir(parents=True)
    return world


def write(world: World, path: str, text: str) -> None:
    """Write a file of the user, or of the project in the current folder."""
    (world.folder / path).write_text(text, "utf-8")


def locked(world: World) -> str:
    """Return the version of torch that the project gets."""
    words = ["lock", "-o", "pylock.toml", "--for", MACHINE, "--upgrade"]
    world.run(*words)
    text = (world.folder / "pylock.toml").read_text("utf-8")
    return OWNER if f'version = "{OWNER}"' in text else REGISTRY


def owners(world: World) -> dict[str, dict[str, Any]]:
    """Return what is shown of the index of a family, by name."""
    done = world.run("config", "show", "lock", "--json")
    return {
        owner["family"]: owner for owner in json.loads(done.stdout)["owners"] if owner["projects"]
    }


PROJECT = '[project]\nname = "own"\nversion = "1"\ndependencies = ["torch"]\n[tool.wheelfit]\n'
USER = ".config/wheelfit/wheelfit.toml"


@pytest.mark.parametrize(
    ("user", "project", "variable", "expected", "says"),
    [
        ("", "", "", OWNER, None),
        ("", "bridges = []", "", REGISTRY, "pyproject.toml"),
        ("bridges = []", "", "", REGISTRY, "wheelfit.toml:1"),
        ('bridges = ["pytorch"]', "bridges = []", "", REGISTRY, "pyproject.toml"),
        ("", "", "none", REGISTRY, "WHEELFIT_BRIDGES"),
        ("", "", " ", OWNER, None),
        ("bridges = []", "", "default", OWNER, None),
        ("bridges = []", "", "pytorch", OWNER, None),
        ("bridges = []", "", "xgboost", REGISTRY, "wheelfit.toml:1"),
        ('bridges = ["none", "pytorch"]', "", "", OWNER, None),
    ],
)
def test_each_layer(
    world: World, user: str, project: str, variable: str, expected: str, says: str | None
) -> None:
    """A user, a project and a variable can forbid it, and what is said later can allow it."""
    write(world, USER, f"{user}\n")
    write(world, "pyproject.toml", f"{PROJECT}{project}\n")
    world.variables = {"WHEELFIT_BRIDGES": variable} if variable else {}
    assert locked(world) == expected
    found = owners(world)["pytorch"]
    assert "torch" in found["projects"]
    assert found["url"] == "https://download.pytorch.org/whl"
    assert found["active"] is (says is None)
    assert says is None or says in found["reason"]


def test_what_a_project_names(world: World) -> None:
    """A project that names a family gets the line where that belongs."""
    write(world, "pyproject.toml", f'{PROJECT}bridges = ["pytorch"]\n')
    error = json.loads(world.run("lock", "--json", code=1).stdout)["error"]
    assert "a project can only set bridges to []" in error["message"]
    assert "your own wheelfit.toml, or in WHEELFIT_BRIDGES" in error["hint"]


@pytest.mark.parametrize("variable", ["", "none", "pytorch"])
def test_what_is_shown_can_be_written(world: World, variable: str) -> None:
    """The line of ``config show`` in a file means what it meant there, also where nobody spoke."""
    world.variables = {"WHEELFIT_BRIDGES": variable} if variable else {}
    stdout = world.run("config", "show").stdout
    (line,) = [line for line in stdout.splitlines() if line.startswith("bridges = ")]
    before = owners(world)
    world.variables = {}
    write(world, USER, f"{line}\n")
    assert {name: one["active"] for name, one in owners(world).items()} == {
        name: one["active"] for name, one in before.items()
    }


def test_options_after_a_setting(world: World) -> None:
    """Where a setting turns families off, those of options count and no others."""
    write(world, USER, "bridges = []\n")
    assert world.choose(MACHINE, "torch").chosen["torch"].startswith(f"{REGISTRY} ")
    assert world.choose(MACHINE, "torch", "--bridge", "pytorch").chosen["torch"].startswith(OWNER)
    other = world.choose(MACHINE, "torch", "--bridge", "xgboost")
    assert other.chosen["torch"].startswith(f"{REGISTRY} ")
    both = world.choose(MACHINE, "torch", "--bridge", "default", "--no-bridges")
    assert both.chosen["torch"].startswith(f"{REGISTRY} ")


def test_the_policy_of_a_site(world: World) -> None:
    """What a policy forbids no user allows, and what he names is refused."""
    write(world, "policy.toml", "version = 1\nbridges = []\n")
    policy = str(world.folder / "policy.toml")
    world.variables = {"WHEELFIT_POLICY_FILE": policy, "WHEELFIT_BRIDGES": "default"}
    assert world.choose(MACHINE, "torch").chosen["torch"].startswith(f"{REGISTRY} ")
    error = world.choose(MACHINE, "torch", "--bridge", "pytorch", code=7).error
    assert (error["code"], error["where"]) == ("refused", policy)
    assert "bridges = []" in error["note"]
    assert policy in owners(world)["pytorch"]["reason"]
    assert f"no owner's index is used: bridges is set to [] by the policy {policy}" in (
        world.run("config", "show").stdout
    )


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ('[[index]]\nname = "own"\nurl = "https://own.example/simple/"\n', "https://own.example/"),
        ('[[index]]\nname = "own"\nurl = "https://own.example/simple/"\nexplicit = true\n', None),
    ],
)
def test_another_index(world: World, configuration: str, reason: str | None) -> None:
    """Another index that is asked for everything is a reason, one for some projects is none."""
    write(world, USER, configuration)
    found = owners(world)["pytorch"]
    assert (found["reason"] is None) is (reason is None)
    assert reason is None or reason in found["reason"]


def test_a_pinned_project(world: World) -> None:
    """A project that comes from elsewhere is told apart from those of its family."""
    index = '[[index]]\nname = "own"\nurl = "https://own.example/simple/"\nexplicit = true\n'
    write(world, USER, f'{index}[sources]\ntorch = {{ index = "own" }}\n')
    stdout = world.run("config", "show").stdout
    where = "https://download.pytorch.org/whl"
    assert f"{where} is not used for torch: torch comes from the index own\n" in stdout
    assert f"{where} for torchvision, " in stdout


def test_a_mirror(world: World) -> None:
    """What the user names is what counts, wherever it is, without its password."""
    write(world, USER, 'bridges = ["pytorch@https://me:secret@own.example/whl"]\n')
    assert owners(world)["pytorch"]["url"].endswith("own.example/whl")
    assert "secret" not in world.run("config", "show").stdout.partition("the registry")[2]


def test_a_policy_that_cannot_be_read(world: World) -> None:
    """A slip in a policy ends everything that chooses."""
    write(world, "policy.toml", 'version = 1\nbridges = ["pytorch"]\n')
    world.variables = {"WHEELFIT_POLICY_FILE": str(world.folder / "policy.toml")}
    assert world.choose(MACHINE, "torch", code=7).error["code"] == "unusable-policy"
