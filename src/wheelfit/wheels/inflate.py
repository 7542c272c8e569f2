"""Decompression of the members of a wheel, in pieces of bounded size."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit.wheels.zip_directory import DEFLATED, STORED, Member
from wheelfit.wheels.zstandard import ZSTANDARD, zstd_library, zstd_unpacker
from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


_PIECE = 1 << 19


def inflate(member: Member, packed: Iterable[bytes], *, where: str) -> Iterator[bytes]:
    """Yield the content of a member, never more than the size in its entry.

    Size and CRC-32 are checked after the last piece: callers must read all pieces before they use
    the content, or be able to discard it.

    :raises InvalidWheel: the data is damaged, or size or CRC differ from the entry.
    """
    library = _fast_library()
    checksum: Callable[[bytes, int], int] = library.crc32
    size = crc = 0
    for piece in packed if member.method == STORED else _unpack(library, member, packed, where):
        size += len(piece)
        if size > member.size:
            stated_size = count_of(member.size, "byte")
            raise InvalidWheel(
                f"{member.name!r} is longer than its entry states ({stated_size})", where=where
            )
        crc = checksum(piece, crc)
        yield piece
    if size != member.size:
        raise InvalidWheel(
            f"{member.name!r} has {count_of(size, 'byte')}, its entry states {member.size}",
            where=where,
        )
    if crc != member.crc:
        raise InvalidWheel(f"{member.name!r} is damaged: its CRC-32 differs", where=where)


def inflate_whole(member: Member, packed: bytes, *, where: str, library: Any = None) -> bytes:
    """Return the content of a small member at once, checked as in `inflate`.

    :param library: the library for decompression; None: the fastest one, which loads in 1 ms.
    """
    if member.method == DEFLATED:
        library = library or _fast_library()
        unpacker = library.decompressobj(-zlib.MAX_WBITS)
        with suppress(library.error):
            # One byte more than expected, to detect content that is too long.
            content: bytes = unpacker.decompress(packed, member.size + 1)
            is_whole = unpacker.eof and not unpacker.unused_data and len(content) == member.size
            if is_whole and library.crc32(content) == member.crc:
                return content
    return b"".join(inflate(member, [packed], where=where))  # which reports the fault


def _fast_library() -> Any:
    """Return the faster library for unpacking and CRC-32, or the standard library.

    Both accept the same data, except for an incomplete Huffman code, which gives some combinations
    of bits no meaning. The standard library refuses such a code even if the data has none of these.
    """
    try:
        from isal import isal_zlib
    except ImportError:  # not every system has it
        return zlib
    return isal_zlib


def _unpack(library: Any, member: Member, packed: Iterable[bytes], where: str) -> Iterator[bytes]:
    """Decompress data, at most `_PIECE` bytes at once."""
    if member.method == ZSTANDARD:
        zstd: Any = zstd_library()
        unpacker, error = zstd_unpacker(zstd), zstd.ZstdError
    else:
        unpacker = _Unpacker() if library is zlib else _fast_unpacker()
        error = library.error
    try:
        for piece in packed:
            pending = piece
            while not unpacker.eof:
                if content := unpacker.decompress(pending, _PIECE):
                    yield content
                pending = b""
                if unpacker.needs_input:
                    break
            if pending or unpacker.unused_data:
                raise InvalidWheel(f"bytes follow the data of {member.name!r}", where=where)
        while not unpacker.eof:
            # The rest of the output, also in pieces.
            if not (content := unpacker.decompress(b"", _PIECE)):
                raise InvalidWheel(f"the data of {member.name!r} is cut off", where=where)
            yield content
    except error:
        raise InvalidWheel(f"the data of {member.name!r} is damaged", where=where) from None


def _fast_unpacker() -> Any:
    """Return a decompressor that allocates a buffer once per piece; `zlib` grows it in steps."""
    from isal import igzip_lib

    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)


class _Unpacker:
    """A deflate decompressor of `zlib`, with the interface of `bz2.BZ2Decompressor`."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(-zlib.MAX_WBITS)

    def decompress(self, data: bytes, most: int) -> bytes:
        """Return content, and keep the input that exceeds the limit."""
        return self._decompressor.decompress(self._decompressor.unconsumed_tail or data, most)

    @property
    def needs_input(self) -> bool:
        """Whether all input has been used."""
        return not self._decompressor.unconsumed_tail

    @property
    def eof(self) -> bool:
        """Whether the data ended."""
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        """The data after the end."""
        return self._decompressor.unused_data
