"""A database in a SQLite file, which the servers of one machine can share."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.errors import StorageUnavailable
from wheelfit.server.backing_services import Dependency, DependencyUse
from wheelfit.server.store.blobs import FILE_MODE, disk_error, make_folder
from wheelfit.server.store.database import Database, Row, Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal


_WRITER_TIMEOUT = 30.0
"""Seconds that a writer waits for another one."""
_READER_TIMEOUT = 2.0
"""Seconds that a reader waits for a lock on the whole file; it does not wait for a writer."""
_MIN_FREE_SPACE = 1 << 20
"""Bytes on the disk below which the database counts as full."""
_SQLITE_BUSY, _SQLITE_FULL = 5, 13
_COLUMN_TYPES = MappingProxyType({"bytes": "BLOB", "number": "INTEGER"})


class SqliteDatabase(Database):
    """A SQLite file.

    Readers and the single writer do not wait for each other (write-ahead log); a write is on the
    disk when it returns.

    :param path: of the file; its folder is created if it is missing.
    """

    column_types = _COLUMN_TYPES
    error_type = sqlite3.Error
    constraint_error = sqlite3.IntegrityError
    deadlines = (5.0, float("inf"))  # for readers and writers

    def __init__(
        self,
        path: Path,
        *,
        lock_timeout: float = _WRITER_TIMEOUT,
        dependency: Dependency | None = None,
    ) -> None:
        super().__init__(str(path), lock_timeout, dependency or Dependency("database"))
        self._path = path
        try:
            make_folder(path.parent)
            with suppress(FileExistsError):
                # SQLite would create it readable by all users, and the files beside it likewise.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))
        except OSError as error:
            raise disk_error(error, str(path)) from error
        self._check_readable()

    def probe(self) -> None:
        """Raise an error if the database cannot be read, or its disk is full."""
        self._check_readable()
        if hasattr(os, "statvfs"):
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < _MIN_FREE_SPACE:
                raise StorageUnavailable(
                    "the database failed: the disk is full",
                    where=self._where,
                    cause="full",
                )

    def _check_readable(self) -> None:
        with self.reading() as execute:
            execute("SELECT 1 FROM sqlite_master")

    def _begin(self, use: DependencyUse, *, reads: bool) -> sqlite3.Connection:
        connection = self._take_idle() or self._connect()
        use.cancel = connection.interrupt
        try:
            lock_timeout = _READER_TIMEOUT if reads else self._lock_timeout
            self._execute(connection, f"PRAGMA busy_timeout = {round(1000 * lock_timeout)}")
            self._execute(connection, "BEGIN" if reads else "BEGIN IMMEDIATE")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_READER_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            self._begin_log(connection)
            self._execute(connection, "PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin_log(self, connection: sqlite3.Connection) -> None:
        """Set the write-ahead log; SQLite does not wait if others do so in a new file."""
        deadline = time.monotonic() + _READER_TIMEOUT
        while True:
            try:
                self._execute(connection, "PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != _SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def _execute(
        self, connection: sqlite3.Connection, sql: str, values: Sequence[Value] = (), /
    ) -> list[Row]:
        with closing(connection.execute(sql, values)) as cursor:
            return cursor.fetchall()

    def _error(self, error: Exception, *, reads: bool) -> StorageUnavailable:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        cause: Literal["unresponsive", "full", ""] = ""
        if code == _SQLITE_FULL:
            cause = "full"
        elif code == _SQLITE_BUSY and reads:
            cause = "unresponsive"
        return StorageUnavailable(f"the database failed: {error}", where=self._where, cause=cause)
