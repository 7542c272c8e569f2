"""Blobs in an S3-compatible object storage, accessed through `obstore`."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.server.storage import open_storage, reporting_storage_failures, without_options
from wheelfit.server.store.blobs import Blob, Draft, check_digest, draft_in, remove_drafts_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_MISSING = (FileNotFoundError,)
_PART_SIZE = 8 << 20
"""Bytes of one part of a large object; S3 accepts 10,000 parts."""
_CONCURRENT_PARTS = 4
"""Parts that are sent at the same time; the number bounds the memory."""
_CHUNK_SIZE = 1 << 20
"""Bytes that are read at a time."""
_DEADLINE = 3.0
"""Seconds for a small request."""
_STALL_TIMEOUT = 5.0
"""Seconds without data after which the reading of an object fails."""


class ObjectBlobs:
    """`Blobs` in an object storage.

    A draft is a local file, because checks of an archive read it in any order. Only valid files are
    uploaded, in parts, and an object is stored whole or not at all.

    :param url: as for `open_storage`.
    :param spool: folder for drafts; None creates a temporary one.
    """

    def __init__(self, url: str, *, spool: Path | None = None) -> None:
        self._where = without_options(url)
        if spool is None:
            # Another user could have created a folder with a predictable name.
            spool = Path(tempfile.mkdtemp(prefix="wheelfit-"))
            weakref.finalize(self, shutil.rmtree, spool, ignore_errors=True)
        self._spool = spool
        # One client for each kind of request, since obstore has deadlines by client.
        self._reading = open_storage(url, read_timeout=_STALL_TIMEOUT)
        if url.startswith("memory:"):
            self._uploading = self._small_requests = self._reading  # a second one would be empty
            return
        # An upload has no deadline, because the response arrives after its last byte.
        self._uploading = open_storage(url)
        self._small_requests = open_storage(url, timeout=_DEADLINE)

    def draft(self) -> AbstractContextManager[Draft]:
        """Return a draft."""
        return draft_in(self._spool)

    def save(self, draft: Draft) -> None:
        """Store the bytes of a draft."""
        if self.size(draft.sha256) == draft.size:
            return
        key = _key(draft.sha256)
        with reporting_storage_failures(self._where):
            self._uploading.put(
                key, draft.path, chunk_size=_PART_SIZE, max_concurrency=_CONCURRENT_PARTS
            )

    def size(self, sha256: str) -> int | None:
        """Return the number of bytes stored under a digest; None if there are none."""
        with (
            suppress(FileNotFoundError),
            reporting_storage_failures(self._where, except_for=_MISSING),
        ):
            return self._small_requests.head(_key(sha256))["size"]
        return None

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Yield the bytes of a blob between two positions."""
        if start >= stop:
            return
        with reporting_storage_failures(self._where):
            result = self._reading.get(_key(sha256), options={"range": (start, stop)})
            for chunk in result.stream(_CHUNK_SIZE):
                yield bytes(chunk)

    def delete(self, sha256: str) -> None:
        """Delete the bytes under a digest."""
        with (
            suppress(FileNotFoundError),
            reporting_storage_failures(self._where, except_for=_MISSING),
        ):
            self._small_requests.delete(_key(sha256))

    def all_blobs(self) -> Iterator[Blob]:
        """Yield all blobs."""
        with reporting_storage_failures(self._where):
            for batch in self._reading.list(chunk_size=1000):
                for item in batch:
                    name = item["path"].rpartition("/")[2]
                    with suppress(ValueError):  # another program stored the object
                        digest = check_digest(name)
                        yield Blob(digest, item["size"], item["last_modified"].timestamp())

    def remove_old_drafts(self, before: float) -> int:
        """Remove drafts of processes that were killed."""
        return remove_drafts_before(self._spool, before)


def _key(sha256: str) -> str:
    return f"{check_digest(sha256)[:2]}/{sha256}"
