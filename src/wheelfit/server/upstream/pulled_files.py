"""Files that were pulled from upstreams, up to a size; those used least recently are deleted."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.server.store.blobs import Blobs, disk_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_MIN_AGE = 300.0
"""Seconds after its last use in which a file stays, since a client may be reading it."""
_TARGET_FILL = 0.9
"""The part of the limit that is filled after deletions, so that they are rare."""


class PulledFiles:
    """The mirrored files.

    The time of the last use is in memory only; after a restart, the time of the pull is used.

    :param blobs: the bytes; of mirrors alone, because any of them may be deleted.
    :param max_size: bytes that may be kept; None: no limit.
    """

    def __init__(
        self,
        blobs: Blobs,
        max_size: int | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.blobs = blobs
        self._max_size = max_size
        self._clock = clock
        self._used: dict[str, float] = {}
        self._size: int | None = None
        self._lock = threading.Lock()

    def size(self, sha256: str) -> int | None:
        """Return the number of bytes stored under a digest, and record the use."""
        size = self.blobs.size(sha256)
        if size is not None and self._max_size is not None:
            with self._lock:
                self._used[sha256] = self._clock()
        return size

    def parts(self, sha256: str, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes between two positions."""
        try:
            yield from self.blobs.parts(sha256, start, stop)
        except FileNotFoundError as error:
            raise disk_error(error, "a mirrored file") from error

    def record_new(self, sha256: str, size: int) -> tuple[str, ...]:
        """Record a new file, and make room if there is too much; return the deleted digests."""
        if self._max_size is None:
            return ()
        with self._lock:
            self._used[sha256] = self._clock()
            if self._size is not None:
                self._size += size
                if self._size <= self._max_size:
                    return ()
            return tuple(self._make_room(self._max_size))

    def _make_room(self, max_size: int) -> Iterable[str]:
        """Delete the files used least recently if there are too many bytes; yield their digests."""
        # The storage is listed, since other processes write there too.
        stored = list(self.blobs.all_blobs())
        total = sum(blob.size for blob in stored)
        if total > max_size:
            now = self._clock()
            used = {blob.sha256: self._used.get(blob.sha256, blob.modified) for blob in stored}
            for blob in sorted(stored, key=lambda blob: used[blob.sha256]):
                if total <= max_size * _TARGET_FILL or now - used[blob.sha256] < _MIN_AGE:
                    break
                self.blobs.delete(blob.sha256)
                self._used.pop(blob.sha256, None)
                total -= blob.size
                yield blob.sha256
        self._size = total


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """A stored file, read as archives are: a ``ByteSource``."""

    pulled: PulledFiles
    sha256: str
    size: int
    """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends."""
        return b"".join(self.pulled.parts(self.sha256, start, min(start + length, self.size)))

    def close(self) -> None:
        """Do nothing: it is opened for each piece."""
