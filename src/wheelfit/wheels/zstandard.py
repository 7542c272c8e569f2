"""Read members of an archive that are packed with Zstandard (method 93).

Python 3.14 and later has a library for it (PEP 784); for older ones it comes with the extra
``zstd``. No such member is written, since every wheel of format 1.x must be readable without it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

ZSTANDARD = 93
"""The number of the method in an archive."""

_LARGEST_WINDOW = 27
"""The largest window of a reader, as a power of two: 128 MiB, which the highest level needs."""


@cache
def zstd_library() -> Any | None:
    """Return the module that reads Zstandard; None: there is none."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def zstd_unpacker(library: Any) -> Any:
    """Return a decompressor of one frame."""
    options = {library.DecompressionParameter.window_log_max: _LARGEST_WINDOW}
    return library.ZstdDecompressor(options=options)
