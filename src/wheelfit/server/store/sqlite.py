"""The records in one SQLite file: what one machine needs."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from contextlib import closing, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.errors import StorageUnavailable
from wheelfit.server.store.blobs import FILE_MODE, make_folder, storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wheelfit.server.store.database import Execute, Row, Value


__all__ = ["SqliteDatabase"]


def __dir__() -> list[str]:
    return __all__


_PATIENCE = 30.0
_WORDS = MappingProxyType({"bytes": "BLOB", "number": "INTEGER"})


class SqliteDatabase:
    """Run statements on a file: a `Database`.

    Readers and the one writer do not wait for each other (write-ahead log); what was written
    is on the disk before anybody is told so.

    :param path: of the file; its folder is made if it is not there.
    :param patience: seconds that a writer waits for its turn.
    :raises StorageUnavailable: it cannot be opened, or is no database.
    """

    words: Mapping[str, str] = _WORDS

    def __init__(self, path: Path, *, patience: float = _PATIENCE) -> None:
        self._path = path
        self._patience = patience
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        # Threads of one process wait here; SQLite itself lets all try again and again.
        self._turns = _Turns()
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
        """Give a transaction that sees one moment and changes nothing."""
        with self._transaction("BEGIN") as execute:
            yield execute

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Give a transaction that changes all or nothing."""
        if not self._turns.wait(self._patience):
            raise self._error("others write all the time")
        try:
            with self._transaction("BEGIN IMMEDIATE") as execute:
                yield execute
        finally:
            self._turns.done()

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Execute]:
        connection = self._take()
        sound = False
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
            raise self._error(str(error)) from error
        finally:
            self._give_back(connection, sound=sound)

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise self._error("it is closed")
            if self._idle:
                return self._idle.pop()
        try:
            connection = sqlite3.connect(
                self._path, timeout=self._patience, isolation_level=None, check_same_thread=False
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

    def _give_back(self, connection: sqlite3.Connection, *, sound: bool) -> None:
        """Keep a connection for the next one; closing it undoes what was not made final."""
        with self._lock:
            if sound and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _error(self, reason: str) -> StorageUnavailable:
        return StorageUnavailable(f"the database says: {reason}", where=str(self._path))


class _Turns:
    """Let threads in one after the other, in the order in which they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False

    def wait(self, patience: float) -> bool:
        """Wait for a turn; False: it did not come in time."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            own = threading.Event()
            self._waiting.append(own)
        if own.wait(patience):
            return True
        with self._lock:
            if own.is_set():
                return True  # it came in this very moment
            self._waiting.remove(own)
            return False

    def done(self) -> None:
        """End a turn."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
