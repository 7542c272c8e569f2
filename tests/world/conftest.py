"""Worlds for tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from cli.running import Runner
from world.internet import Answer, World
from world.table import fill


@pytest.fixture(scope="module")
def new_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], World]]:
    """Return a function that makes a world without anything in it."""
    made: list[World] = []

    def make() -> World:
        made.append(World(tmp_path_factory.mktemp("world")))
        return made[-1]

    yield make
    for world in made:
        world.net.close()


@pytest.fixture(scope="session")
def whole_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a world with everything that the table of right answers takes."""
    world = World(tmp_path_factory.mktemp("whole_world"))
    fill(world)
    yield world
    world.net.close()


@pytest.fixture(scope="session")
def installable_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return the same world with wheels that are as large as they say."""
    world = World(tmp_path_factory.mktemp("installable_world"))
    fill(world, claims_sizes=False)
    yield world
    world.net.close()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return a runner of commands."""
    return Runner(capsys)


@pytest.fixture
def at_home(whole_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the whole world, in which this process is as that of a user without settings."""
    enter(whole_world, monkeypatch)
    return whole_world


def enter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one in a world, of a user without settings."""
    environ = world.environ()
    for name in os.environ.keys() - environ.keys():
        monkeypatch.delenv(name)
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(world.folder)


@pytest.fixture
def install(
    installable_world: World, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Return a function that really installs for a machine, and returns what was said of it."""
    enter(installable_world, monkeypatch)
    return lambda machine, *words: run("install", *words, "--for", machine).out


@pytest.fixture
def choose(at_home: World, run: Runner) -> Callable[..., Answer]:
    """Return a function that returns what an install for a machine would do."""

    def answer(machine: str, *words: str, code: int = 0) -> Answer:
        target = at_home.folder / "target"
        where = ("--dry-run", "--json", "--for", machine, "--target", target)
        result = run("install", *words, *where, code=code)
        return Answer(result.object, result.err)

    return answer
