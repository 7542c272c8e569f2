"""Bytes in a storage like S3, through `obstore`."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from wheelfit.errors import InvalidConfiguration, NeedsExtra, StorageUnavailable
from wheelfit.server.store.blobs import Blob, check_digest, draft_in, tidy_drafts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from obstore.store import ObjectStore

    from wheelfit.server.store.blobs import Draft


__all__ = ["ObjectBlobs"]


def __dir__() -> list[str]:
    return __all__


_SPOOL = "wheelfit-uploads"
_CHUNK = 8 << 20  # bytes of one part of a large object; S3 takes 10,000 of them
_AT_ONCE = 4  # parts on their way: what bounds the memory
_PIECE = 1 << 20
_PATIENCE = timedelta(seconds=60)
_RETRIES = 4


class ObjectBlobs:
    """Keep bytes as objects: `Blobs`.

    A draft is a file on this machine, because an archive must be looked at in any order before
    it counts. What is wrong therefore never reaches the storage; what is right goes there in
    parts, and an object is there whole or not at all.

    Credentials come from where programs for that storage expect them, as ``AWS_ACCESS_KEY_ID``.

    :param url: ``s3://bucket/prefix``, ``gs://…``, ``az://…``, or ``memory://`` for tests.
        Options follow the question mark: ``endpoint=http://127.0.0.1:9000``, ``region=…``.
    :param spool: folder for drafts; by default one for temporary files.
    :raises InvalidConfiguration: it names no storage.
    :raises NeedsExtra: the library is not installed.
    """

    def __init__(self, url: str, *, spool: Path | None = None) -> None:
        self._where = urlunsplit(urlsplit(url)._replace(query=""))
        self._spool = spool or Path(tempfile.gettempdir(), _SPOOL)
        self._store = _open(url, self._where)

    def draft(self) -> AbstractContextManager[Draft]:
        """Return something to write bytes into."""
        return draft_in(self._spool)

    def keep(self, draft: Draft) -> None:
        """Keep the bytes of a draft."""
        import obstore  # noqa: PLC0415 - start-up, and an extra

        if self.size(draft.sha256) == draft.size:
            return
        key = _key(draft.sha256)
        try:
            obstore.put(self._store, key, draft.path, chunk_size=_CHUNK, max_concurrency=_AT_ONCE)
        except _failures() as error:
            raise self._error(error) from error

    def size(self, sha256: str) -> int | None:
        """Return how many bytes are kept under a digest."""
        import obstore  # noqa: PLC0415 - start-up, and an extra

        try:
            return obstore.head(self._store, _key(sha256))["size"]
        except FileNotFoundError:
            return None
        except _failures() as error:
            raise self._error(error) from error

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Give the pieces of what lies between two positions."""
        import obstore  # noqa: PLC0415 - start-up, and an extra

        if start >= stop:
            return
        try:
            found = obstore.get(self._store, _key(sha256), options={"range": (start, stop)})
            for piece in found.stream(_PIECE):
                yield bytes(piece)
        except _failures() as error:
            raise self._error(error) from error

    def delete(self, sha256: str) -> None:
        """Forget what is kept under a digest."""
        import obstore  # noqa: PLC0415 - start-up, and an extra

        try:
            obstore.delete(self._store, _key(sha256))
        except FileNotFoundError:
            pass
        except _failures() as error:
            raise self._error(error) from error

    def stored(self) -> Iterator[Blob]:
        """Yield everything that is kept."""
        import obstore  # noqa: PLC0415 - start-up, and an extra

        try:
            for some in obstore.list(self._store, chunk_size=1000):
                for one in some:
                    name = one["path"].rpartition("/")[2]
                    try:
                        digest = check_digest(name)
                    except ValueError:
                        continue  # nothing of ours
                    yield Blob(digest, one["size"], one["last_modified"].timestamp())
        except _failures() as error:
            raise self._error(error) from error

    def tidy(self, before: float) -> int:
        """Remove drafts of processes that were killed."""
        return tidy_drafts(self._spool, before)

    def _error(self, error: Exception) -> StorageUnavailable:
        # The first line has the reason; the rest would show requests.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return StorageUnavailable(f"the storage says: {reason[:300]}", where=self._where)


def _key(sha256: str) -> str:
    return f"{check_digest(sha256)[:2]}/{sha256}"


def _failures() -> tuple[type[Exception], ...]:
    from obstore.exceptions import BaseError  # noqa: PLC0415 - start-up, and an extra

    return (BaseError, OSError)


def _open(url: str, where: str) -> ObjectStore:
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - start-up, and an extra
        from obstore.store import MemoryStore, from_url  # noqa: PLC0415
    except ImportError:
        raise NeedsExtra("server", "obstore") from None
    if urlsplit(url).scheme == "memory":
        return MemoryStore()
    options: dict[str, Any] = dict(parse_qsl(urlsplit(url).query))
    client: Any = {"allow_http": True} if options.get("endpoint", "").startswith("http:") else {}
    retries: Any = {"max_retries": _RETRIES, "retry_timeout": _PATIENCE}
    try:
        return from_url(where, client_options=client or None, retry_config=retries, **options)
    except (BaseError, ValueError, TypeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InvalidConfiguration(
            f"this names no storage: {reason[:300]}",
            where=where,
            hint="as s3://bucket/prefix?endpoint=https://storage.example.org",
        ) from None
