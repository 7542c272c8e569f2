"""The contents of the cache as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.sources.cache import Store
from wheelfit.sources.cache_inventory import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_shown(kind: str, run: Runner, tmp_path: Path) -> None:
    """Whatever a cache keeps, ``cache info`` has a row for it."""
    entry = tmp_path / f"{kind}-1" / "ab" / "abcd"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"x")
    rows = run("cache", "info", "--cache-dir", tmp_path).out.splitlines()
    assert rows[-2].startswith("total")


def test_one_entry(run: Runner, tmp_path: Path) -> None:
    """The lines read well for a single entry, too."""
    Store(tmp_path).write("pages", "key", {}, b"body")
    assert run("cache", "verify", "--cache-dir", tmp_path).out == "1 entry, none damaged\n"
    removed = run("cache", "remove", "--all", "--cache-dir", tmp_path).out
    assert removed.startswith("removed index pages (requested): 1, ")
