"""The records in one SQLite file: what one machine needs."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.errors import StorageUnavailable
from wheelfit.server.backing_services import Dependency
from wheelfit.server.store.blobs import FILE_MODE, make_folder, storage_error
from wheelfit.server.store.database import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Literal

    from wheelfit.server.backing_services import Turn
    from wheelfit.server.store.database import Execute, Row, Value


_PATIENCE = 30.0
_PROMPT = 2.0
"""Seconds that a reader waits for a lock on the whole file; for a writer it does not wait."""
_DEADLINE = 5.0
_LEAST_ROOM = 1 << 20
"""Bytes on the disk without which nothing can be written for long."""
_BUSY, _FULL = 5, 13  # as SQLite calls them
_WORDS = MappingProxyType({"bytes": "BLOB", "number": "INTEGER"})


class SqliteDatabase:
    """A SQLite file: a `Database`.

    Readers and the one writer do not wait for each other (write-ahead log); a write is on the
    disk when it returns.

    :param path: of the file; its folder is created if it is missing.
    :param patience: seconds that a writer waits for its turn.
    """

    words: Mapping[str, str] = _WORDS

    def __init__(
        self, path: Path, *, patience: float = _PATIENCE, dependency: Dependency | None = None
    ) -> None:
        self._path = path
        self._dependency = Dependency("database") if dependency is None else dependency
        self._patience = patience
        # By the seconds that they wait for a lock of the file.
        self._idle: dict[float, list[sqlite3.Connection]] = {}
        self._lock = threading.Lock()
        # Threads of one process wait here; SQLite itself lets all try again and again.
        self._turns = Turns()
        self._closed = False
        try:
            make_folder(path.parent)
            with suppress(FileExistsError):
                # Else SQLite makes it, for everybody; the files beside it are as this one is.
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))
        except OSError as error:
            raise storage_error(error, str(path)) from error
        with self.reading() as execute:
            execute("SELECT 1 FROM sqlite_master")

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """Open a transaction that sees one moment and changes nothing."""
        with (
            self._dependency.asked(within=_DEADLINE) as turn,
            self._transaction("BEGIN", turn, _PROMPT) as execute,
        ):
            yield execute

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Open a transaction that changes all or nothing."""
        if not self._turns.wait(self._patience):
            raise self._error("others write all the time")
        try:
            with (
                self._dependency.asked(is_long=True) as turn,
                self._transaction("BEGIN IMMEDIATE", turn, self._patience) as execute,
            ):
                yield execute
        finally:
            self._turns.done()

    def probe(self) -> None:
        """Raise an error if it does not answer, or has no room."""
        with self.reading() as execute:
            execute("SELECT 1 FROM sqlite_master")
        if hasattr(os, "statvfs"):
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < _LEAST_ROOM:
                raise self._error("there is no room on the disk", "full")

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection in connections:
                connection.close()

    @contextmanager
    def _transaction(self, begin: str, turn: Turn, patience: float) -> Iterator[Execute]:
        connection = self._take(patience)
        sound = False
        turn.give_up = connection.interrupt
        try:
            connection.execute(begin)

            def execute(sql: str, values: Sequence[Value] = (), /) -> list[Row]:
                with closing(connection.execute(sql, values)) as cursor:
                    return cursor.fetchall()

            yield execute
            connection.execute("COMMIT")
            sound = True
        except sqlite3.IntegrityError:
            raise  # a mistake of ours: the records look before they write
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            is_late = code == _BUSY and patience == _PROMPT
            trouble: Literal["full", "silent", ""] = "silent" if is_late else ""
            raise self._error(str(error), "full" if code == _FULL else trouble) from error
        finally:
            turn.give_up = None
            self._give_back(connection, patience, sound=sound)

    def _take(self, patience: float) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise self._error("it is closed")
            idle = self._idle.get(patience)
            if idle:
                return idle.pop()
        try:
            connection = sqlite3.connect(
                self._path, timeout=patience, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._error(str(error)) from error
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            connection.close()
            raise self._error(str(error)) from error
        return connection

    def _give_back(self, connection: sqlite3.Connection, patience: float, *, sound: bool) -> None:
        """Keep a connection for the next one; closing it undoes what was not made final."""
        with self._lock:
            if sound and not self._closed:
                self._idle.setdefault(patience, []).append(connection)
                return
        connection.close()

    def _error(
        self, reason: str, trouble: Literal["silent", "full", ""] = ""
    ) -> StorageUnavailable:
        return StorageUnavailable(
            f"the database says: {reason}", where=str(self._path), trouble=trouble
        )
