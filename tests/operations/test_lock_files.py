"""The lock file of a request, read and recalled from the cache."""

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


@pytest.mark.parametrize(
    ("time", "kept"), [(UTC, 1), ("2026-01-02T03:04:05+01:00", 0)], ids=["UTC", "another zone"]
)
def test_recalled(tmp_path: Path, time: str, kept: int) -> None:
    """A lock is the same when read again, and is kept only if all of it comes back."""
    path = tmp_path / "pylock.toml"
    path.write_text(TEXT % time)
    store = Store(tmp_path / "cache")
    plain = load_lock(path)
    for _ in range(2):
        lock = load_lock(path, store=store)
        assert repr(lock.to_mapping()) == repr(plain.to_mapping())
        assert lock.packages == plain.packages
    entries = [one for one in (tmp_path / "cache").glob("locks-1/**/*") if one.is_file()]
    assert len(entries) == kept


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
