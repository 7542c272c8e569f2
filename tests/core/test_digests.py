"""Hashes of short and of long texts."""

from __future__ import annotations

import hashlib

import pytest

from wheelfit.core.digests import sha256_of


@pytest.mark.parametrize("length", [0, 1, 64, 256 * 1024, 256 * 1024 + 1])
def test_sha256(length: int) -> None:
    """The digest is SHA-256, whatever the implementation."""
    data = bytes(range(256)) * (length // 256 + 1)
    for text in (data[:length], memoryview(data)[:length]):
        assert sha256_of(text) == hashlib.sha256(text).digest()
