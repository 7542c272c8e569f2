"""Files whose index gives no hash: recorded on first use, and compared ever after."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from world.internet import World
from world.registries import Wheel

pytestmark = pytest.mark.integration

NAME = "llama-cpp-python"
FOLDER = "llama-cpp-python/whl/cpu"
BRIDGE = ("--bridge", NAME)


def publish(world: World, *requires: str) -> Wheel:
    """Publish the wheel, in place of one that was there, without a hash."""
    host = "abetlen.github.io"
    world.net.hosts.pop(host, None)
    index = world.index(host)
    index.has_hashes = index.has_metadata = False
    wheel = Wheel(NAME, "0.4.2", requires=requires)
    index.add(FOLDER, [wheel])
    return wheel


@pytest.fixture
def world(new_world: Callable[[], World]) -> World:
    """Return a world in which the wheel was installed once."""
    world = new_world()
    publish(world)
    install(world)
    return world


def install(world: World, code: int = 0) -> dict[str, str]:
    """Install the wheel into an empty folder; return the error."""
    target = world.folder / "target"
    shutil.rmtree(target, ignore_errors=True)
    done = world.run("install", NAME, *BRIDGE, "--json", "--target", str(target), code=code)
    assert (target / "llama_cpp_python").is_dir() is (code == 0)
    error: dict[str, str] = json.loads(done.stdout).get("error", {})
    return error


def forget_copies(world: World) -> None:
    """Remove all that the cache has of the wheel but the record."""
    for kind in ("wheels", "unpacked", "members", "pages", "parsed", "files"):
        shutil.rmtree(world.folder / "cache" / f"{kind}-1", ignore_errors=True)


def test_the_same_file(world: World) -> None:
    """A file that has not changed is taken again."""
    forget_copies(world)
    assert install(world) == {}


def test_another_file(world: World) -> None:
    """One that has changed is refused, until somebody says that it may be another one."""
    before, after = Wheel(NAME, "0.4.2").sha256, publish(world, "nothing; extra == 'x'").sha256
    forget_copies(world)
    error = install(world, code=4)
    assert error["code"] == "file-changed"
    assert (
        error["where"]
        == f"https://abetlen.github.io/{FOLDER}/llama_cpp_python-0.4.2-py3-none-any.whl"
    )
    assert before in error["note"]
    assert after in error["note"]
    assert f"wheelfit cache remove {NAME}" in error["hint"]
    world.run("cache", "remove", NAME)
    assert install(world) == {}


def test_what_is_cleared_away_is_not_the_record(world: World) -> None:
    """Pruning removes copies, and no record."""
    publish(world, "nothing; extra == 'x'")
    world.run("cache", "prune", "--max-size", "0")
    assert not list((world.folder / "cache" / "wheels-1").rglob("?" * 62))
    assert install(world, code=4)["code"] == "file-changed"


@pytest.mark.parametrize("is_used", [True, False])
def test_a_lock_has_the_hash(new_world: Callable[[], World], *, is_used: bool) -> None:
    """A lock has the hash that was recorded; a file that was never used is fetched for it."""
    world = new_world()
    wheel = publish(world)
    if is_used:
        install(world)
    path = Path(world.folder / "pylock.toml")
    world.run("lock", NAME, *BRIDGE, "-o", str(path))
    (package,) = tomllib.loads(path.read_text())["packages"]
    (locked,) = package["wheels"]
    assert locked["hashes"] == {"sha256": wheel.sha256}
    publish(world, "nothing; extra == 'x'")
    forget_copies(world)
    assert install(world, code=4)["code"] == "file-changed"
