"""The records in PostgreSQL, for an index of several machines; the only importer of `psycopg`."""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from wheelfit.errors import NeedsExtra, StorageUnavailable
from wheelfit.server.backing_services import Dependency, DependencyUse
from wheelfit.server.store.database import Database, Execute, Row, Value
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_LOCK_TIMEOUT = 30.0

_COLUMN_TYPES = MappingProxyType({"bytes": "BYTEA", "number": "BIGINT"})
LOCK = 94335348
"""The key of the lock: "wheelfit" on a telephone keypad, a number that no other program uses."""
# The server releases the locks of a lost machine once it notices the loss.
_KEEPALIVE = MappingProxyType(
    {
        "connect_timeout": 3,
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
)
# Limits for statements and transactions whose client has gone.
_SETTINGS = b"SET statement_timeout = '60s'; SET idle_in_transaction_session_timeout = '300s'"
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_BEGIN_WRITING = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_NO_ANSWER = ("08", "57P01", "57P02", "57P03", "57014", "53300")
"""The prefixes of error codes for a server that cannot answer at the moment."""
_FULL = "53100"


class PostgresqlDatabase(Database):
    """A PostgreSQL server.

    :param url: ``postgresql://user:password@host/database``.
    :param lock_timeout: seconds to wait for other writers, and for a server that is starting.
    """

    column_types = _COLUMN_TYPES
    deadlines = (5.0, 60.0)  # for readers and writers

    def __init__(
        self, url: str, *, lock_timeout: float = _LOCK_TIMEOUT, dependency: Dependency | None = None
    ) -> None:
        try:
            import psycopg
        except ImportError:
            raise NeedsExtra("server", "psycopg") from None
        parts = urlsplit(url)
        # Never with the password.
        where = urlunsplit(
            parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        )
        super().__init__(where, lock_timeout, dependency or Dependency("database", max_threads=10))
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise InvalidConfiguration(
                "this is not a URL of a PostgreSQL database",
                where=where,
                hint="as postgresql://host/database, with user:password@ before the host",
            ) from None
        self._url = url
        self._connect: Any = psycopg.connect
        self.error_type, self.constraint_error = psycopg.Error, psycopg.IntegrityError
        self._wait_until_ready(time.monotonic() + lock_timeout)

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Open a transaction that changes all or nothing, under a lock of the whole database."""
        with super().writing() as execute:
            execute("SELECT pg_advisory_xact_lock(?)", (LOCK,))
            yield execute

    def _wait_until_ready(self, deadline: float) -> None:
        """Wait until it answers: it may have been started together with this process."""
        while True:
            try:
                with self._transaction(DependencyUse(self._dependency), reads=True) as execute:
                    execute("SELECT 1")
            except StorageUnavailable as error:
                if error.cause != "unresponsive" or time.monotonic() > deadline:
                    raise
                time.sleep(0.25)
            else:
                return

    def _begin(self, use: DependencyUse, *, reads: bool) -> Any:
        begin = _BEGIN_READING if reads else _BEGIN_WRITING
        connection = self._take_idle()
        if connection is not None:
            use.cancel = lambda: _shut_down(connection)
            try:
                connection.execute(begin, prepare=False)
            except self.error_type:
                connection.close()
                self._close_idle()  # most likely the server was restarted
                is_cancelled = use.cancel is None  # `cancel_overdue` has called and removed it
                if is_cancelled:
                    raise  # a new connection would take as long
            else:
                return connection
        new_connection = self._connect(self._url, autocommit=True, **_KEEPALIVE)
        use.cancel = lambda: _shut_down(new_connection)
        try:
            new_connection.execute(_SETTINGS)
            new_connection.execute(begin, prepare=False)
        except BaseException:
            new_connection.close()
            raise
        return new_connection

    def _return(self, connection: Any, *, is_sound: bool) -> None:
        if connection.broken:
            self._close_idle()
        super()._return(connection, is_sound=is_sound)

    def _execute(self, connection: Any, sql: str, values: Sequence[Value] = (), /) -> list[Row]:
        # The statements are ours; untrusted text is in the values.
        text = sql.replace("?", "%s").encode()
        prepare = False if sql == "COMMIT" else None  # None: prepared once it is frequent
        with connection.execute(text, tuple(values), prepare=prepare) as cursor:
            return cursor.fetchall() if cursor.description is not None else []

    def _error(self, error: Exception, *, reads: bool) -> StorageUnavailable:  # noqa: ARG002
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        code = getattr(error, "sqlstate", None)
        is_unresponsive = code is None or code.startswith(_NO_ANSWER)
        return StorageUnavailable(
            f"the database failed: {reason[:300]}",
            where=self._where,
            cause="full" if code == _FULL else "unresponsive" if is_unresponsive else "",
        )


def _shut_down(connection: Any) -> None:
    """Abort the call that a thread waits for on a connection, from another thread."""
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
