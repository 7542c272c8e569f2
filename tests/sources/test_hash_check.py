"""What was promised of bytes is checked."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from wheelfit.sources.hash_check import HashCheck, check_bytes, check_file
from wheelfit_runtime.errors import HashMismatch, IntegrityError

if TYPE_CHECKING:
    from pathlib import Path

DATA = b"some bytes"
RIGHT = hashlib.sha256(DATA).hexdigest()


@pytest.mark.parametrize("name", ["sha256", "sha512", "md5", "blake2b", "sha3_256"])
def test_right(name: str, tmp_path: Path) -> None:
    """Every usual algorithm is checked, in memory and on disk."""
    hashes = {name: hashlib.new(name, DATA).hexdigest()}
    check_bytes(DATA, hashes, len(DATA), where="x")
    (tmp_path / "x").write_bytes(DATA)
    check_file(tmp_path / "x", hashes, len(DATA), where="x")


def test_wrong() -> None:
    """The error names what was promised and what came."""
    with pytest.raises(HashMismatch) as excinfo:
        check_bytes(b"others", {"sha256": RIGHT}, None, where="file.whl")
    assert RIGHT in (excinfo.value.note or "")
    assert hashlib.sha256(b"others").hexdigest() in (excinfo.value.note or "")


def test_every_promise_counts() -> None:
    """One wrong digest of two is wrong."""
    with pytest.raises(HashMismatch):
        check_bytes(DATA, {"sha256": RIGHT, "md5": "00"}, None, where="x")


@pytest.mark.parametrize("size", [len(DATA) - 1, len(DATA) + 1])
def test_size(size: int) -> None:
    """Fewer or more bytes than promised are an error."""
    with pytest.raises(IntegrityError, match="another size"):
        check_bytes(DATA, {"sha256": RIGHT}, size, where="x")


def test_too_long_is_noticed_early() -> None:
    """An endless file stops at the first byte too many."""
    check = HashCheck({}, 5, where="x")
    check.update(b"12345")
    with pytest.raises(IntegrityError):
        check.update(b"6")


def test_unknown_algorithms() -> None:
    """A promise nobody can check is an error, unless there is another beside it."""
    with pytest.raises(IntegrityError, match="martian"):
        check_bytes(DATA, {"martian": "00"}, None, where="x")
    check_bytes(DATA, {"martian": "00", "sha256": RIGHT}, None, where="x")


def test_nothing_promised() -> None:
    """Without any promise everything is right."""
    check_bytes(DATA, {}, None, where="x")
