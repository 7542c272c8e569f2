"""Bytes in a storage like S3, through `obstore`."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.server.storage import failures, open_storage, where_of
from wheelfit.server.store.blobs import (
    Blob,
    check_digest,
    draft_in,
    probe_with_a_draft,
    tidy_drafts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from wheelfit.server.store.blobs import Draft


_MISSING = (FileNotFoundError,)
_CHUNK = 8 << 20  # bytes of one part of a large object; S3 takes 10,000 of them
_AT_ONCE = 4  # parts in transfer, which bounds the memory
_PIECE = 1 << 20
_PROMPT = 3.0
"""Seconds for a small request."""
_STALLED = 5.0
"""Seconds without a byte of an object after which reading fails."""


class ObjectBlobs:
    """A storage of objects: `Blobs`.

    A draft is a local file, because an archive is checked in any order; only valid files are
    uploaded, in parts, and an object is stored whole or not at all.

    :param url: as for `open_storage`.
    :param spool: folder for drafts; by default a new temporary one.
    """

    def __init__(self, url: str, *, spool: Path | None = None) -> None:
        self._where = where_of(url)
        if spool is None:
            # Another user could have created a folder with a known name.
            spool = Path(tempfile.mkdtemp(prefix="wheelfit-"))
            weakref.finalize(self, shutil.rmtree, spool, ignore_errors=True)
        self._spool = spool
        self._store = open_storage(url, stalled=_STALLED)
        if url.startswith("memory:"):
            self._sending = self._prompt = self._store  # each `memory:` storage is separate
            return
        # An upload is answered after its last byte: neither deadline fits it.
        self._sending = open_storage(url)
        self._prompt = open_storage(url, within=_PROMPT)

    def draft(self) -> AbstractContextManager[Draft]:
        """Return a draft."""
        return draft_in(self._spool)

    def keep(self, draft: Draft) -> None:
        """Store the bytes of a draft."""
        if self.size(draft.sha256) == draft.size:
            return
        key = _key(draft.sha256)
        with failures(self._where):
            self._sending.put(key, draft.path, chunk_size=_CHUNK, max_concurrency=_AT_ONCE)

    def size(self, sha256: str) -> int | None:
        """Return the number of bytes stored under a digest."""
        with suppress(FileNotFoundError), failures(self._where, passing=_MISSING):
            return self._prompt.head(_key(sha256))["size"]
        return None

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Yield the bytes between two positions."""
        if start >= stop:
            return
        with failures(self._where):
            result = self._store.get(_key(sha256), options={"range": (start, stop)})
            for piece in result.stream(_PIECE):
                yield bytes(piece)

    def delete(self, sha256: str) -> None:
        """Delete the bytes under a digest."""
        with suppress(FileNotFoundError), failures(self._where, passing=_MISSING):
            self._prompt.delete(_key(sha256))

    def stored(self) -> Iterator[Blob]:
        """Yield all stored blobs."""
        with failures(self._where):
            for listed in self._store.list(chunk_size=1000):
                for item in listed:
                    name = item["path"].rpartition("/")[2]
                    with suppress(ValueError):  # else it is nothing of ours
                        digest = check_digest(name)
                        yield Blob(digest, item["size"], item["last_modified"].timestamp())

    def tidy(self, before: float) -> int:
        """Remove drafts of processes that were killed."""
        return tidy_drafts(self._spool, before)

    def probe(self) -> None:
        """Raise an error if it does not answer, or has no room for drafts."""
        probe_with_a_draft(self)


def _key(sha256: str) -> str:
    return f"{check_digest(sha256)[:2]}/{sha256}"
