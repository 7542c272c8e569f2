"""Find the paths of source files that compilers leave in binaries.

They come from ``__FILE__`` and debug information, reveal the build machine, and make builds in
other folders differ.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

_PREFIX = rb"/(?:home|Users|root|tmp|build|project|__w)/"
_PREFIXES = pattern(_PREFIX)
"""Prefixes of paths on build machines; they begin with one byte, which makes searching fast."""
_DRIVE = pattern(rb":(?=\\)")
"""The colon after the drive letter of Windows; one byte, for the same reason."""
_SOURCE = pattern(
    rb"(?:[A-Za-z]:)?[^\x00-\x20\x7f-\xff\"'<>|*?%:;,()]{1,400}?"
    rb"\.(?:asm|c|cc|cpp|cu|cuh|cxx|f|f90|go|h|hh|hpp|inl|m|mm|pyx|rs|s|zig)"
    rb"(?=" + _PREFIX + rb"|[^\w.+/\\-]|\Z)"  # some compilers put one path right behind another
)
_PIECE = 4 << 20
_OVERLAP = 512
_MAX_PATHS = 50


def build_paths(file: BinaryIO, code: Iterable[tuple[int, int]] = ()) -> tuple[str, ...]:
    r"""Return absolute paths of source files in a binary, distinct and sorted, at most 50.

    :param code: positions and sizes of parts without paths, which are most of a library.

    >>> import io
    >>> build_paths(io.BytesIO(b"\0/home/ann/fast/core.c\0/home/%s\0"))
    ('/home/ann/fast/core.c',)
    """
    paths: set[bytes] = set()
    for start, stop in _ranges_outside(code, file.seek(0, io.SEEK_END)):
        overlap = b""
        for position in range(start, stop, _PIECE):
            if len(paths) >= _MAX_PATHS:
                break
            file.seek(position)
            piece = file.read(min(_PIECE, stop - position))
            paths.update(_paths_in_piece(overlap + piece))
            overlap = piece[-_OVERLAP:]
    return tuple(sorted(path.decode("ascii") for path in paths))[:_MAX_PATHS]


def _ranges_outside(parts: Iterable[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file outside of some parts."""
    position = 0
    for start, length in sorted(parts):
        yield position, min(start, size)
        position = max(position, start + length)
    yield position, size


def _paths_in_piece(data: bytes) -> Iterator[bytes]:
    for prefix in _PREFIXES.finditer(data):
        yield from _path_at(data, prefix.start())
    for drive in _DRIVE.finditer(data):
        start = drive.start()
        if data[max(0, start - 1) : start].isalpha():
            yield from _path_at(data, start - 1)


def _path_at(data: bytes, first: int) -> Iterator[bytes]:
    if _continues_path(data[max(0, first - 1) : first]):
        return
    while (match := _SOURCE.match(data, first)) is not None:
        yield match[0]
        first = match.end()
        if _PREFIXES.match(data, first) is None:
            return


def _continues_path(before: bytes) -> bool:
    """Return whether the byte before a match belongs to the same path."""
    return before.isalnum() or before in (b"_", b"-", b".", b"/", b"\\", b"%")
