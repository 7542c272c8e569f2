"""Open a store by the addresses of its records and its bytes, and clean it up."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from wheelfit.server.backing_services import Dependency
from wheelfit.server.store.blobs import GuardedBlobs
from wheelfit.server.store.database import written
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.store.sessions import Sessions
from wheelfit.server.store.sql_records import Records
from wheelfit.server.store.sqlite import SqliteDatabase
from wheelfit.sources.urls import file_path, redact
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Self

    from wheelfit.server.store.audit import Actor
    from wheelfit.server.store.blobs import Blobs
    from wheelfit.server.store.database import Database


DATABASE = "index.sqlite3"
"""The name of the file of records, in the folder of an index."""
_FILES = "files"
_READERS = 10
"""Threads that may read the database at once; each has a connection."""
_DOWNLOADS = 8
"""Threads that may use the storage at once, a third of those of a server."""


class Store(NamedTuple):
    """The records and bytes of an index; a context manager that closes it."""

    records: Records
    sessions: Sessions
    blobs: Blobs
    probes: Mapping[Dependency, Callable[[], None]] = MappingProxyType({})
    """The dependencies, each with a function that raises an error if it does not answer."""

    def acting(self, actor: Actor) -> Self:
        """Return this store with an actor for its changes."""
        return self._replace(
            records=self.records.acting(actor), sessions=self.sessions.acting(actor)
        )

    def close(self) -> None:
        """Close the database."""
        self.records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(folder: Path, *, records: str | None = None, blobs: str | None = None) -> Store:
    """Open a store, and create missing parts.

    :param folder: for parts without an address (a SQLite file, the bytes of files), and for uploads
        on their way to other storages.
    :param records: address of the database, as for `open_database`.
    :param blobs: address of the bytes, as for `open_blobs`.
    """
    kept = (
        open_blobs(blobs, spool=folder / "incoming")
        if blobs is not None
        else FolderBlobs(folder / _FILES)
    )
    is_asked = Dependency("database", most=_READERS)
    database = (
        open_database(records, dependency=is_asked)
        if records is not None
        else SqliteDatabase(folder / DATABASE, dependency=is_asked)
    )
    has_bytes = Dependency("storage", most=_DOWNLOADS)
    return Store(
        Records(database),
        Sessions(database),
        GuardedBlobs(kept, has_bytes),
        {is_asked: database.probe, has_bytes: kept.probe},
    )


def open_database(url: str, *, dependency: Dependency | None = None) -> Database:
    """Open a database with any tables.

    :param url: ``sqlite:///path/of/file`` or ``postgresql://user:password@host/database``.
    """
    scheme = urlsplit(url).scheme
    if scheme == "sqlite":
        return SqliteDatabase(_path(url), dependency=dependency)
    if scheme in ("postgresql", "postgres"):
        from wheelfit.server.store.postgresql import PostgresqlDatabase

        return PostgresqlDatabase(url, dependency=dependency)
    raise InvalidConfiguration(
        "this is not the URL of a supported database",
        where=redact(url),
        hint="as sqlite:///var/lib/wheelfit/index.sqlite3 or postgresql://host/database",
    )


def open_blobs(url: str, *, spool: Path | None = None) -> Blobs:
    """Open the storage of the bytes of an index.

    :param url: ``file:///folder``, or an object storage, as ``s3://bucket/prefix``.
    :param spool: folder for uploads on their way to an object storage.
    """
    scheme = urlsplit(url).scheme
    if scheme == "file":
        return FolderBlobs(_path(url))
    if scheme in _OBJECT_STORAGES:
        from wheelfit.server.store.object_store import ObjectBlobs

        return ObjectBlobs(url, spool=spool)
    raise InvalidConfiguration(
        "this is not the URL of a supported storage",
        where=redact(url),
        hint="as file:///var/lib/wheelfit/files or s3://bucket/prefix",
    )


_OBJECT_STORAGES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss", "memory"})


def _path(url: str) -> Path:
    parts = urlsplit(url)
    try:
        return Path(file_path(parts._replace(scheme="file").geturl()))
    except ValueError as error:
        raise InvalidConfiguration(str(error), where=redact(url)) from None


_TOGETHER = 100
"""Blobs that are checked in one transaction, which blocks other writers."""


class CleaningResult(NamedTuple):
    """The result of cleaning up."""

    blobs: int = 0
    size: int = 0
    """Bytes of the blobs."""
    stages: int = 0
    drafts: int = 0


EMPTY_STAGE_LASTS = timedelta(hours=6)
"""The time an unexpired stage waits for its first file, which may be large."""
_ENDED_SESSION_LASTS = timedelta(days=7)
"""For how long after it would have expired the end of a publishing session can be seen."""


def clean(store: Store, *, now: datetime, grace: timedelta) -> CleaningResult:
    """Remove unused data; safe during other cleanings and uploads.

    Bytes are stored before their file is recorded, so those of an upload in progress have no file
    yet; an upload that takes longer than the grace notices, and stores them again.

    :param grace: the age below which bytes without a file are left alone.
    """
    before = (now - grace).timestamp()
    stages = [stage.id for stage in store.records.stages() if stage.expires <= written(now)]
    for stage in stages:
        store.records.drop(stage)
    empty = store.records.drop_empty(written(now - EMPTY_STAGE_LASTS))
    store.sessions.forget(written(now - _ENDED_SESSION_LASTS))
    count = size = 0
    old = (blob for blob in store.blobs.stored() if blob.modified < before)
    while some := tuple(islice(old, _TOGETHER)):
        sizes = {blob.sha256: blob.size for blob in some}
        gone = store.records.forget_unused(tuple(sizes), store.blobs.delete)
        count += len(gone)
        size += sum(sizes[digest] for digest in gone)
    result = CleaningResult(count, size, len(stages) + empty, store.blobs.tidy(before))
    if any(result):
        what = ", ".join(f"{number} {name}" for name, number in result._asdict().items() if number)
        store.records.note("clean", what)
    return result
