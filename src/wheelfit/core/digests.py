"""SHA-256 of short texts, without OpenSSL.

The implementation that `hashlib` prefers is several times as fast for what is large, but to load
its library takes longer than all the hashing of a command that finds everything in the cache.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256 as _own
else:
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256 as _own
        else:
            from _sha256 import sha256 as _own
    except ImportError:  # not CPython, or built without
        from hashlib import sha256 as _own

_SHORT = 256 * 1024
"""Bytes that the slower way hashes in a millisecond."""


def sha256_of(data: bytes | memoryview) -> bytes:
    """Return the SHA-256 of some bytes.

    >>> sha256_of(b"").hex()[:8]
    'e3b0c442'
    """
    if len(data) <= _SHORT:
        return _own(data).digest()
    from hashlib import sha256 as fast

    return fast(data).digest()
