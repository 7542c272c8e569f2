"""A storage that may stop answering, used through a `Dependency`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.server.dependency import Dependency
    from wheelfit.server.store.blobs import Blob, Blobs, Draft


class GuardedBlobs:
    """A storage used through a `Dependency`: `Blobs` around others."""

    def __init__(self, blobs: Blobs, dependency: Dependency) -> None:
        self._blobs = blobs
        self._dependency = dependency

    @contextmanager
    def draft(self) -> Iterator[Draft]:
        """Return something to write bytes into, unless the storage is silent."""
        self._dependency.check()
        with self._blobs.draft() as draft:
            yield draft

    def keep(self, draft: Draft) -> None:
        """Keep the bytes of a draft."""
        with self._dependency.asked(is_long=True):
            self._blobs.keep(draft)

    def size(self, sha256: str) -> int | None:
        """Return how many bytes are kept under a digest."""
        with self._dependency.asked():
            return self._blobs.size(sha256)

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Yield the pieces between two positions.

        The first is read at once, so that a silent storage raises before an answer has begun.
        """
        pieces = iter(self._blobs.parts(sha256, start, stop))
        return self._following(self._next(pieces), pieces)

    def _following(self, piece: bytes | None, pieces: Iterator[bytes]) -> Iterator[bytes]:
        while piece is not None:
            yield piece
            piece = self._next(pieces)

    def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        with self._dependency.asked():
            return next(pieces, None)

    def delete(self, sha256: str) -> None:
        """Forget what is kept under a digest."""
        with self._dependency.asked():
            self._blobs.delete(sha256)

    def stored(self) -> Iterator[Blob]:
        """Yield everything that is kept."""
        blobs = self._blobs.stored()
        while True:
            with self._dependency.asked():
                blob = next(blobs, None)
            if blob is None:
                return
            yield blob

    def tidy(self, before: float) -> int:
        """Remove drafts of processes that were killed."""
        return self._blobs.tidy(before)

    def probe(self) -> None:
        """Raise an error if it does not answer, or has no room for drafts."""
        with self._dependency.asked():
            self._blobs.probe()
