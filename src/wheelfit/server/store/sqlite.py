"""The records in one SQLite file, enough for one machine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.errors import StorageUnavailable
from wheelfit.server.backing_services import Dependency
from wheelfit.server.store.blobs import FILE_MODE, make_folder, storage_error
from wheelfit.server.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Literal

    from wheelfit.server.backing_services import Turn
    from wheelfit.server.store.database import Row, Value


_PATIENCE = 30.0
_PROMPT = 2.0
"""Seconds that a reader waits for a lock on the whole file; for a writer it does not wait."""
_LEAST_ROOM = 1 << 20
"""Bytes on the disk without which nothing can be written for long."""
_BUSY, _FULL = 5, 13  # as SQLite calls them
_WORDS = MappingProxyType({"bytes": "BLOB", "number": "INTEGER"})


class SqliteDatabase(Database):
    """A SQLite file.

    Readers and the single writer do not wait for each other (write-ahead log); a write is on the
    disk when it returns.

    :param path: of the file; its folder is created if it is missing.
    """

    words = _WORDS
    failure = sqlite3.Error
    mistake = sqlite3.IntegrityError
    deadlines = (5.0, float("inf"))

    def __init__(
        self, path: Path, *, patience: float = _PATIENCE, dependency: Dependency | None = None
    ) -> None:
        super().__init__(str(path), patience, dependency or Dependency("database"))
        self._path = path
        try:
            make_folder(path.parent)
            with suppress(FileExistsError):
                # Otherwise SQLite creates it, readable by all users; the files beside it get its
                # mode.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))
        except OSError as error:
            raise storage_error(error, str(path)) from error
        self._ask()

    def probe(self) -> None:
        """Raise an error if it does not answer, or has no room."""
        self._ask()
        if hasattr(os, "statvfs"):
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < _LEAST_ROOM:
                raise StorageUnavailable(
                    "the database failed: there is no room on the disk",
                    where=self._where,
                    trouble="full",
                )

    def _ask(self) -> None:
        with self.reading() as execute:
            execute("SELECT 1 FROM sqlite_master")

    def _begin(self, turn: Turn, *, reads: bool) -> sqlite3.Connection:
        connection = self._take() or self._connect()
        turn.give_up = connection.interrupt
        try:
            patience = _PROMPT if reads else self._patience
            self._execute(connection, f"PRAGMA busy_timeout = {round(1000 * patience)}")
            self._execute(connection, "BEGIN" if reads else "BEGIN IMMEDIATE")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_PROMPT, isolation_level=None, check_same_thread=False
        )
        try:
            self._execute(connection, "PRAGMA journal_mode = WAL")
            self._execute(connection, "PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _execute(
        self, connection: sqlite3.Connection, sql: str, values: Sequence[Value] = (), /
    ) -> list[Row]:
        with closing(connection.execute(sql, values)) as cursor:
            return cursor.fetchall()

    def _error(self, error: Exception, *, reads: bool) -> StorageUnavailable:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        trouble: Literal["full", "silent", ""] = "silent" if code == _BUSY and reads else ""
        return StorageUnavailable(
            f"the database failed: {error}",
            where=self._where,
            trouble="full" if code == _FULL else trouble,
        )
