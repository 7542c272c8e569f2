"""Indexes of families that are wrong or out of reach, where there is a lock already."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from world.internet import World
from world.test_torch import laid_out

from wheelfit.testing.internet import Document

pytestmark = pytest.mark.integration

LOCK = ("lock", "torch", "--upgrade", "--platform", "linux-x86_64", "--no-cache-dir")
JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture(scope="module")
def world(new_world: Callable[[], World]) -> World:
    """Return a world with torch, one lock, and a folder that is no mirror."""
    world = laid_out(new_world())
    (world.folder / "empty").mkdir()
    world.run(*LOCK)
    return world


@pytest.mark.parametrize(
    ("bridge", "code", "words"),
    [
        ("pytorch@nowhere", 1, "neither an https URL nor an existing folder"),
        ("pytorch@", 1, "has no URL of the indexes after the @"),
        ("unheard-of", 1, "unknown bridge 'unheard-of'"),
        ("pytorch@https://mirror.example/whl", 5, "the index of pytorch cannot be reached"),
        ("pytorch@empty", 3, "no index of the bridge pytorch has torch (they are in empty)"),
    ],
)
def test_bridges_that_lead_nowhere(world: World, bridge: str, code: int, words: str) -> None:
    """The reason is told, and the lock that is there stays."""
    before = (world.folder / "pylock.toml").read_bytes()
    stderr = world.run(*LOCK, "--bridge", bridge, "--retries", "0", code=code).stderr
    assert words in " ".join(stderr.split())
    assert (world.folder / "pylock.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        (Document(b"{not", JSON), 5, "the index of pytorch cannot be read: not a page"),
        (Document(b"%PDF", "application/pdf"), 5, "not an index page but application/pdf"),
        (Document(b"\xff\x00 garbage", "text/html"), 5, "no index of the bridge pytorch has"),
        (None, 5, "no index of the bridge pytorch has torch"),
    ],
)
def test_pages_that_are_garbage(
    world: World, document: Document | None, code: int, words: str
) -> None:
    """The same where the index answers with something else than pages."""
    before = (world.folder / "pylock.toml").read_bytes()
    host = world.net.hosts["download.pytorch.org"]
    world.net.hosts["download.pytorch.org"] = lambda _path: document
    try:
        stderr = world.run(*LOCK, "--retries", "0", code=code).stderr
    finally:
        world.net.hosts["download.pytorch.org"] = host
    assert words in " ".join(stderr.split())
    assert (world.folder / "pylock.toml").read_bytes() == before
