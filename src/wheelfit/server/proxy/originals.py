"""The bytes of files of an index, in parts: from its server, or from the cache.

A wheel of gigabytes passes through piece by piece. A transfer that breaks goes on where it broke,
and one whose file changes meanwhile ends.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from wheelfit.sources.client import unexpected
from wheelfit.sources.transport import Interrupted
from wheelfit.sources.urls import redact
from wheelfit.wheels.remote import FIRST_REQUEST, Span, Suffix, announced_extent
from wheelfit_runtime.errors import UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wheelfit.sources.client import Client
    from wheelfit.sources.page import File
    from wheelfit.wheels.remote import Extent, Part


_PIECE = 1 << 18


class Original(Protocol):
    """Give bytes of one file, to several threads at once; also a ``ByteSource``."""

    @property
    def size(self) -> int:
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return a few bytes."""

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes between two positions.

        :raises NetworkError: they cannot be had.
        """

    def close(self) -> None:
        """Let go of it."""


class KeptOriginal:
    """Read a file that lies on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size = path.stat().st_size
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return a few bytes."""
        return b"".join(self.pieces(start, min(start + length, self.size)))

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes between two positions."""
        with self._path.open("rb") as file:
            file.seek(start)
            left = stop - start
            while left > 0 and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield piece

    def close(self) -> None:
        """Do nothing: it is opened for each reader."""


class RemoteOriginal:
    """Read a file from its server by ranges.

    :raises RangeUnsupported: the server gives no ranges.
    :raises NetworkError: it cannot be read.
    """

    def __init__(self, client: Client, file: File) -> None:
        self._client = client
        self._url = file.url
        self._lock = threading.Lock()
        first = client.get_range(file.url, Suffix(FIRST_REQUEST))
        self._extent: Extent = first.extent
        self._parts: list[Part] = [first]
        self.size = first.extent.total
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return a few bytes; what was read before is not asked for again."""
        stop = min(start + length, self.size)
        if start >= stop:
            return b""
        with self._lock:
            for part in self._parts:
                if part.extent.start <= start and stop <= part.extent.stop:
                    return part.data[start - part.extent.start : stop - part.extent.start]
        part = self._client.get_range(self._url, Span(start, stop))
        self._check(part.extent)
        with self._lock:
            self._parts.append(part)
        return part.data

    def forget(self) -> None:
        """Let go of what was read: nobody will ask for it again."""
        with self._lock:
            self._parts.clear()

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes between two positions."""
        attempt = 0
        while start < stop:
            asked = Span(start, stop)
            headers = {"Range": asked.header, "Accept-Encoding": "identity"}
            before = start
            try:
                with self._client.stream(self._url, headers=headers) as (response, where):
                    if response.status in {401, 403, 404, 410}:
                        raise unexpected(response.status, where)
                    extent = announced_extent(
                        asked, response.status, response.headers, where=redact(where)
                    )
                    self._check(extent)
                    for piece in response.chunks():
                        wanted = piece[: stop - start]
                        start += len(wanted)
                        yield wanted
                        if start == stop:
                            break
            except Interrupted as interrupted:
                attempt = attempt + 1 if start == before else 1
                self._client.wait_after(attempt, interrupted, self._url)

    def close(self) -> None:
        """Do nothing: connections belong to the client."""

    def _check(self, extent: Extent) -> None:
        if (extent.total, extent.validator) != (self.size, self._extent.validator):
            raise UnexpectedStatus(
                "the file changed on the server while it was read",
                status=206,
                where=redact(self._url),
                hint="try again",
            )
