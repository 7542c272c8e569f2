"""SHA-256 of short texts, without OpenSSL.

The implementation of `hashlib` is several times as fast for large data, but loading its library
takes longer than all hashing of a command whose data is in the cache.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256 as _sha256_without_openssl
else:
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256 as _sha256_without_openssl
        else:
            from _sha256 import sha256 as _sha256_without_openssl
    except ImportError:  # not CPython, or built without
        from hashlib import sha256 as _sha256_without_openssl

_MAX_SHORT = 256 * 1024
"""Bytes that the implementation without OpenSSL hashes in a millisecond."""


def sha256_of(data: bytes | memoryview) -> bytes:
    """Return the SHA-256 of some bytes.

    >>> sha256_of(b"").hex()[:8]
    'e3b0c442'
    """
    if len(data) <= _MAX_SHORT:
        return _sha256_without_openssl(data).digest()
    from hashlib import sha256 as openssl_sha256

    return openssl_sha256(data).digest()
