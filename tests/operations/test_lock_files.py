"""The lock file of a request, read, and known as valid from the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.operations.lock_files import load_lock
from wheelfit.sources.cache import Store
from wheelfit_runtime.errors import InvalidLock

TEXT = """\
lock-version = "1.0"
created-by = "another"

[[packages]]
name = "a"
version = "1"

[[packages.wheels]]
name = "a-1-py3-none-any.whl"
url = "https://x.invalid/a-1-py3-none-any.whl"
upload-time = %s
hashes = { sha256 = "0" }
"""
UTC = "2026-01-02T03:04:05.678Z"


@pytest.mark.parametrize("time", [UTC, "0001-01-01T00:00:00+05:00"])
def test_recalled(tmp_path: Path, time: str) -> None:
    """A lock is the same when read again, whatever is in it."""
    path = tmp_path / "pylock.toml"
    path.write_text(TEXT % time)
    store = Store(tmp_path / "cache")
    plain = load_lock(path)
    for _ in range(2):
        assert load_lock(path, store=store) == plain


def test_the_cache_has_no_content_of_locks(tmp_path: Path) -> None:
    """The file alone decides what is installed; its hash alone is kept."""
    path = tmp_path / "pylock.toml"
    path.write_text(TEXT % UTC)
    load_lock(path, store=Store(tmp_path / "cache"))
    (entry,) = [path for path in (tmp_path / "cache").glob("locks-1/**/*") if path.is_file()]
    assert b"x.invalid" not in entry.read_bytes()


def test_a_broken_lock_is_refused_each_time(tmp_path: Path) -> None:
    """Only what was found valid is kept; a changed file is read anew."""
    path = tmp_path / "pylock.toml"
    path.write_text(TEXT % UTC)
    store = Store(tmp_path / "cache")
    load_lock(path, store=store)
    path.write_text((TEXT % UTC).replace('"1.0"', '"9.0"'))
    for _ in range(2):
        with pytest.raises(InvalidLock):
            load_lock(path, store=store)
