"""Text output about the cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.sources.cache import Store
from wheelfit.sources.cache_inventory import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_shown(kind: str, run: Runner, tmp_path: Path) -> None:
    """``cache info`` has a row for every kind of entry."""
    entry = tmp_path / f"{kind}-1" / "ab" / "abcd"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"x")
    rows = run("cache", "info", "--cache-dir", tmp_path).out.splitlines()
    assert rows[-2].startswith("total")


def test_single_entry(run: Runner, tmp_path: Path) -> None:
    """The texts are correct for a single entry."""
    Store(tmp_path).write("pages", "key", {}, b"body")
    assert run("cache", "verify", "--cache-dir", tmp_path).out == "1 entry, none damaged\n"
    removed = run("cache", "remove", "--all", "--cache-dir", tmp_path).out
    assert removed.startswith("removed index pages (requested): 1, ")
