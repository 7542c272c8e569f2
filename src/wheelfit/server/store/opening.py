"""Opening of a store by the URLs of its records and its bytes, and removal of unused data."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from wheelfit.server.backing_services import Dependency
from wheelfit.server.store.blobs import Blobs, GuardedBlobs, probe
from wheelfit.server.store.database import Database, timestamp
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.store.sessions import Sessions
from wheelfit.server.store.sql_records import Records
from wheelfit.server.store.sqlite import SqliteDatabase
from wheelfit.sources.urls import file_path, redact
from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from wheelfit.server.store.audit import Actor


DATABASE = "index.sqlite3"
"""The name of the file with the records, in the folder of an index."""
_FILES = "files"
_DATABASE_THREADS = 10
"""Threads that may read the database at a time; each has a connection."""
_STORAGE_THREADS = 8
"""Threads that may use the storage at a time, a third of those of a server."""
_OBJECT_STORAGES = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss", "memory"})
_BLOBS_PER_TRANSACTION = 100
"""Blobs that are checked in one transaction, which blocks other writers."""
EMPTY_STAGE_LIFETIME = timedelta(hours=6)
"""The time for which a stage without files is kept; its first file may be large."""
_ENDED_SESSION_LIFETIME = timedelta(days=7)
"""The time after its expiry for which an ended publishing session can still be queried."""


class Store(NamedTuple):
    """The records and bytes of an index; a context manager that closes it."""

    records: Records
    sessions: Sessions
    blobs: Blobs
    probes: Mapping[Dependency, Callable[[], None]] = MappingProxyType({})
    """The dependencies, each with a function that raises an error if it does not answer."""

    def with_actor(self, actor: Actor) -> Self:
        """Return this store with an actor that the audit log records for its changes."""
        return self._replace(
            records=self.records.with_actor(actor), sessions=self.sessions.with_actor(actor)
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

    :param folder: for parts without a URL (a SQLite file, the bytes of files), and for uploads that
        are checked before they go to another storage.
    :param records: URL of the database, as for `open_database`.
    :param blobs: URL of the bytes, as for `open_blobs`.
    """
    if blobs is not None:
        storage = open_blobs(blobs, spool=folder / "incoming")
    else:
        storage = FolderBlobs(folder / _FILES)
    database_dependency = Dependency("database", max_threads=_DATABASE_THREADS)
    if records is not None:
        database = open_database(records, dependency=database_dependency)
    else:
        database = SqliteDatabase(folder / DATABASE, dependency=database_dependency)
    storage_dependency = Dependency("storage", max_threads=_STORAGE_THREADS)
    return Store(
        Records(database),
        Sessions(database),
        GuardedBlobs(storage, storage_dependency),
        {database_dependency: database.probe, storage_dependency: partial(probe, storage)},
    )


def has_store(folder: Path, *, records: str | None = None) -> bool:
    """Return whether a store exists, as for `open_store`; a PostgreSQL database always counts."""
    if records is None:
        return (folder / DATABASE).is_file()
    return _scheme(records) != "sqlite" or _path(records).is_file()


def open_database(url: str, *, dependency: Dependency | None = None) -> Database:
    """Open a database; its tables are neither created nor checked.

    :param url: ``sqlite:///path/of/file`` or ``postgresql://user:password@host/database``.
    :raises InvalidConfiguration: the scheme of the URL is not supported.
    """
    scheme = _scheme(url)
    if scheme == "sqlite":
        return SqliteDatabase(_path(url), dependency=dependency)
    if scheme in ("postgresql", "postgres"):
        from wheelfit.server.store.postgresql import PostgresqlDatabase

        return PostgresqlDatabase(url, dependency=dependency)
    raise InvalidConfiguration(
        "this is not the URL of a supported database",
        where=redact(url) if "://" in url else None,  # other forms may have a password
        hint="as sqlite:///var/lib/wheelfit/index.sqlite3 or postgresql://host/database",
    )


def open_blobs(url: str, *, spool: Path | None = None) -> Blobs:
    """Open the storage of the bytes of an index.

    :param url: ``file:///folder``, or an object storage, such as ``s3://bucket/prefix``.
    :param spool: folder for uploads that are checked before they go to an object storage.
    :raises InvalidConfiguration: the scheme of the URL is not supported.
    """
    scheme = _scheme(url)
    if scheme == "file":
        return FolderBlobs(_path(url))
    if scheme in _OBJECT_STORAGES:
        from wheelfit.server.store.object_store import ObjectBlobs

        return ObjectBlobs(url, spool=spool)
    raise InvalidConfiguration(
        "this is not the URL of a supported storage",
        where=redact(url) if "://" in url else None,  # other forms may have a password
        hint="as file:///var/lib/wheelfit/files or s3://bucket/prefix",
    )


def _scheme(url: str) -> str:
    """Return the scheme of a URL; empty if it is not one."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def _path(url: str) -> Path:
    try:
        return Path(file_path(f"file:{url.partition(':')[2]}"))
    except ValueError as error:
        raise InvalidConfiguration(str(error), where=redact(url)) from None


class CleaningResult(NamedTuple):
    """The numbers of removed blobs, stages and drafts."""

    blobs: int = 0
    size: int = 0
    """Bytes of the blobs."""
    stages: int = 0
    drafts: int = 0

    def __str__(self) -> str:
        counts = {"stored file": self.blobs, "stage": self.stages, "unfinished upload": self.drafts}
        return listed(count_of(count, noun) for noun, count in counts.items() if count)


def clean(store: Store, *, now: datetime, grace: timedelta) -> CleaningResult:
    """Remove unused data; safe while other processes clean or upload.

    Bytes are stored before their file is recorded, so those of an upload in progress look unused.
    An upload that takes longer than the grace period notices it, and stores them again.

    :param grace: the age below which bytes without a file are kept.
    """
    before = (now - grace).timestamp()
    stages = [stage.id for stage in store.records.stages() if stage.expires <= timestamp(now)]
    for stage in stages:
        store.records.drop(stage)
    empty_count = store.records.drop_empty(timestamp(now - EMPTY_STAGE_LIFETIME))
    store.sessions.prune(timestamp(now - _ENDED_SESSION_LIFETIME))
    count = size = 0
    old_blobs = (blob for blob in store.blobs.all_blobs() if blob.modified < before)
    while batch := tuple(islice(old_blobs, _BLOBS_PER_TRANSACTION)):
        sizes = {blob.sha256: blob.size for blob in batch}
        removed = store.records.delete_unused(tuple(sizes), store.blobs.delete)
        count += len(removed)
        size += sum(sizes[digest] for digest in removed)
    result = CleaningResult(
        count, size, len(stages) + empty_count, store.blobs.remove_old_drafts(before)
    )
    if any(result):
        store.records.record_action("clean", str(result))
    return result
