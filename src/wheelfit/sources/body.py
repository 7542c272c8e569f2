"""Read the body of a response completely, but never more than allowed."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

from wheelfit.sources.transport import Interrupted, Response
from wheelfit_runtime.errors import UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_PART_SIZE = 1 << 14


def read_body(
    response: Response,
    limit: int,
    *,
    where: str,
    packed: bool = False,
    timeout: float | None = None,
) -> bytes:
    """Return the body, decompressed.

    Decompression stops at the limit, so a decompression bomb costs no more than the limit.

    :param limit: bytes of the longest body accepted, decompressed.
    :param where: the URL without credentials, for errors.
    :param packed: whether the body stays compressed; then the limit applies to that.
    :param timeout: seconds for the whole body. None: no limit, so a server that sends a byte now
        and then can block the reader forever.
    :raises Interrupted: it broke off, or took too long.
    :raises UnexpectedStatus: it is longer, or in an encoding that was not requested.
    """
    if (announced_size(response) or 0) > limit:  # the compressed body alone is too long
        raise _too_long(limit, response.status, where)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise UnexpectedStatus(
            f"the answer is encoded as {encoding!r}, which was not requested",
            status=response.status,
            where=where,
        )
    chunks = response.chunks() if timeout is None else _chunks_before_deadline(response, timeout)
    if packed or encoding in {"", "identity"}:
        return _joined(chunks, limit, response.status, where)
    return decompressed(chunks, limit, status=response.status, where=where)


def _chunks_before_deadline(response: Response, timeout: float) -> Iterator[bytes]:
    deadline = time.monotonic() + timeout
    for chunk in response.chunks():
        yield chunk
        if time.monotonic() > deadline:
            raise Interrupted("the answer takes too long", retry_chance="none")


def announced_size(response: Response) -> int | None:
    """Return the bytes of the body that the server announces; None: no valid number."""
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _joined(chunks: Iterable[bytes], limit: int, status: int, where: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise _too_long(limit, status, where)
        pieces.append(chunk)
    return b"".join(pieces)


def decompressed(chunks: Iterable[bytes], limit: int, *, status: int = 200, where: str) -> bytes:
    """Return the decompressed content of gzip or zlib data.

    :param limit: bytes of the longest result.
    :param where: the URL without credentials, for errors.
    :raises Interrupted: it breaks off before its end.
    :raises UnexpectedStatus: it cannot be decompressed, or the result is longer.
    """
    pieces: list[bytes] = []
    size = 0
    inflater = _inflater()
    try:
        for part in _in_parts(chunks):
            data = part
            while data:
                if inflater.eof:  # gzip allows several members one after the other
                    inflater = _inflater()
                # One byte more than allowed distinguishes "longer" from "just as long".
                piece = inflater.decompress(data, limit - size + 1)
                size += len(piece)
                if size > limit:
                    raise _too_long(limit, status, where)
                if piece:
                    pieces.append(piece)
                data = inflater.unconsumed_tail or inflater.unused_data
    except zlib.error:
        raise UnexpectedStatus(
            "the answer cannot be decompressed", status=status, where=where
        ) from None
    if not inflater.eof:
        raise Interrupted("the answer broke off before its end")
    return b"".join(pieces)


def _in_parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield small pieces, so that little is copied after each of many gzip members."""
    for chunk in chunks:
        for start in range(0, len(chunk), _PART_SIZE):
            yield chunk[start : start + _PART_SIZE]


def _inflater() -> zlib._Decompress:
    return zlib.decompressobj(wbits=47)  # detects gzip or zlib


def _too_long(limit: int, status: int, where: str) -> UnexpectedStatus:
    return UnexpectedStatus(f"the answer is longer than {limit} bytes", status=status, where=where)
