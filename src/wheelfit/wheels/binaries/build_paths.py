"""Find the paths of source files that compilers leave in binaries.

They come from ``__FILE__`` and debug information, tell where something was built, and make builds
in other folders differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_PLACES = pattern(rb"/(?:home|Users|root|tmp|build|project|__w)/")
"""What paths on build machines begin with; the one letter at the front is searched for fast."""
_DRIVE = b":\\"
"""What paths on Windows begin with, behind a letter."""
_SOURCE = pattern(
    rb"(?:[A-Za-z]:)?[^\x00-\x20\x7f-\xff\"'<>|*?%:;,()]{1,400}?"
    rb"\.(?:asm|c|cc|cpp|cu|cuh|cxx|f|f90|go|h|hh|hpp|inl|m|mm|pyx|rs|s|zig)(?![\w.+/\\-])"
)
_PIECE = 4 << 20
_OVERLAP = 512
_MOST = 50


def build_paths(file: BinaryIO) -> tuple[str, ...]:
    r"""Return absolute paths of source files in a binary, each once, sorted; of many some.

    >>> import io
    >>> build_paths(io.BytesIO(b"\0/home/ann/fast/core.c\0/home/%s\0"))
    ('/home/ann/fast/core.c',)
    """
    found: set[bytes] = set()
    file.seek(0)
    end = b""
    while len(found) < _MOST and (piece := file.read(_PIECE)):
        found.update(_in_piece(end + piece))
        end = piece[-_OVERLAP:]
    return tuple(sorted(path.decode("ascii") for path in found))[:_MOST]


def _in_piece(data: bytes) -> Iterator[bytes]:
    for place in _PLACES.finditer(data):
        yield from _path_at(data, place.start())
    start = data.find(_DRIVE)
    while start >= 0:
        if data[max(0, start - 1) : start].isalpha():
            yield from _path_at(data, start - 1)
        start = data.find(_DRIVE, start + 1)


def _path_at(data: bytes, first: int) -> Iterator[bytes]:
    if not _goes_on(data[max(0, first - 1) : first]):
        match = _SOURCE.match(data, first)
        if match is not None:
            yield match[0]


def _goes_on(before: bytes) -> bool:
    """Return whether the byte before a match belongs to the same path."""
    return before.isalnum() or before in (b"_", b"-", b".", b"/", b"\\", b"%")
