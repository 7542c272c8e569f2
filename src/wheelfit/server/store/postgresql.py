"""The records in PostgreSQL, for an index of several machines; the only importer of `psycopg`."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from wheelfit.errors import NeedsExtra, StorageUnavailable
from wheelfit.server.backing_services import Dependency, Turn
from wheelfit.server.store.database import Turns
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.server.store.database import Execute, Row, Value


_PATIENCE = 30.0
_MOST = 10
_READING, _WRITING = 5.0, 60.0
"""Seconds after which a transaction is ended."""
_WORDS = MappingProxyType({"bytes": "BYTEA", "number": "BIGINT"})
# "wheelfit" in digits of a telephone: who else would take this lock.
LOCK = 94335348
# A machine that vanishes holds its locks until the server notices.
_KEEPALIVE = MappingProxyType(
    {
        "connect_timeout": 3,
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
)
# Ends statements and transactions there whose caller has given up, or was stopped.
_SETTINGS = b"SET statement_timeout = '60s'; SET idle_in_transaction_session_timeout = '300s'"
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_WRITING = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_NO_ANSWER = ("08", "57P01", "57P02", "57P03", "57014", "53300")
"""How the codes of errors begin that mean that the server cannot answer at the moment."""
_FULL = "53100"


class PostgresqlDatabase:
    """A PostgreSQL server, over connections that are used again: a `Database`.

    :param url: ``postgresql://user:password@host/database``.
    :param patience: seconds to wait for the turn to write, and for a server that is starting.
    """

    words: Mapping[str, str] = _WORDS

    def __init__(
        self, url: str, *, patience: float = _PATIENCE, dependency: Dependency | None = None
    ) -> None:
        try:
            import psycopg  # noqa: PLC0415 - start-up, and an extra
        except ImportError:
            raise NeedsExtra("server", "psycopg") from None
        self._dependency = Dependency("database", most=_MOST) if dependency is None else dependency
        parts = urlsplit(url)
        # Never with the password.
        self._where = urlunsplit(
            parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        )
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise InvalidConfiguration(
                "this is not a URL of a PostgreSQL database",
                where=self._where,
                hint="as postgresql://host/database, with user:password@ before the host",
            ) from None
        self._url = url
        self._patience = patience
        self._connect: Any = psycopg.connect
        self._failure: type[Exception] = psycopg.Error
        self._mistake: type[Exception] = psycopg.IntegrityError
        # Writers wait here: each of them would hold a connection that readers need.
        self._turns = Turns()
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._closed = False
        self._wait_for_it(time.monotonic() + patience)

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """Open a transaction that sees one moment and changes nothing."""
        with (
            self._dependency.asked(within=_READING) as turn,
            self._transaction(turn, reads=True) as execute,
        ):
            yield execute

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Open a transaction that changes all or nothing."""
        if not self._turns.wait(self._patience):
            raise StorageUnavailable("others write to the database all the time", where=self._where)
        try:
            with (
                self._dependency.asked(within=_WRITING, is_long=True) as turn,
                self._transaction(turn, reads=False) as execute,
            ):
                execute("SELECT pg_advisory_xact_lock(?)", (LOCK,))
                yield execute
        finally:
            self._turns.done()

    def probe(self) -> None:
        """Raise an error if it does not answer."""
        with self.reading() as execute:
            execute("SELECT 1")

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
        self._forget_idle()

    def _wait_for_it(self, end: float) -> None:
        """Wait until it answers: it may have been started together with this process."""
        while True:
            try:
                with self._transaction(Turn(self._dependency), reads=True) as execute:
                    execute("SELECT 1")
            except StorageUnavailable as error:
                if error.trouble != "silent" or time.monotonic() > end:
                    raise
                time.sleep(0.25)
            else:
                return

    @contextmanager
    def _transaction(self, turn: Turn, *, reads: bool) -> Iterator[Execute]:
        connection = None
        is_sound = False
        try:
            connection = self._take(turn, reads=reads)

            def execute(sql: str, values: Sequence[Value] = (), /) -> list[Row]:
                # The statements are ours; what comes from strangers is in the values.
                text = sql.replace("?", "%s").encode()
                with connection.execute(text, tuple(values)) as cursor:
                    return cursor.fetchall() if cursor.description is not None else []

            yield execute
            connection.execute(b"COMMIT", prepare=False)
            is_sound = True
        except self._mistake:
            raise  # of ours: the records look before they write
        except self._failure as error:
            raise self._error(error) from error
        finally:
            turn.give_up = None
            if connection is not None:
                self._give_back(connection, is_sound=is_sound)

    def _take(self, turn: Turn, *, reads: bool) -> Any:
        """Return a connection that works, in a new transaction."""
        begin = _BEGIN_READING if reads else _BEGIN_WRITING
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the database is closed", where=self._where)
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            turn.give_up = lambda: _shut(connection)
            try:
                connection.execute(begin, prepare=False)
            except self._failure:
                connection.close()
                self._forget_idle()  # most likely the server was restarted
                if turn.give_up is None:
                    raise  # `look` has ended it: a new connection would take as long
            else:
                return connection
        fresh = self._connect(self._url, autocommit=True, **_KEEPALIVE)
        turn.give_up = lambda: _shut(fresh)
        try:
            fresh.execute(_SETTINGS)
            fresh.execute(begin, prepare=False)
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _give_back(self, connection: Any, *, is_sound: bool) -> None:
        """Keep a connection for the next transaction, or close it, which rolls back."""
        if is_sound:
            with self._lock:
                if not self._closed:
                    self._idle.append(connection)
                    return
        elif connection.broken:
            self._forget_idle()
        connection.close()

    def _forget_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _error(self, error: Exception) -> StorageUnavailable:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        code = getattr(error, "sqlstate", None)
        is_silent = code is None or code.startswith(_NO_ANSWER)
        return StorageUnavailable(
            f"the database says: {reason[:300]}",
            where=self._where,
            trouble="full" if code == _FULL else "silent" if is_silent else "",
        )


def _shut(connection: Any) -> None:
    """End the call that a thread waits for on a connection, from another thread."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
