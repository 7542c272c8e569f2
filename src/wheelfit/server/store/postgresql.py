"""The records in PostgreSQL, for an index of several machines; the only importer of `psycopg`."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from wheelfit.errors import InvalidConfiguration, NeedsExtra, StorageUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.server.store.database import Execute, Row, Value


__all__ = ["LOCK", "PostgresqlDatabase"]


def __dir__() -> list[str]:
    return __all__


_PATIENCE = 30.0
_MOST = 10
_WORDS = MappingProxyType({"bytes": "BYTEA", "number": "BIGINT"})
# "wheelfit" in digits of a telephone: who else would take this lock.
LOCK = 94335348
# A machine that vanishes holds its locks until the server notices.
_KEEPALIVE = MappingProxyType(
    {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3}
)


class PostgresqlDatabase:
    """Run statements on a server, over a pool of connections: a `Database`.

    :param url: ``postgresql://user:password@host/database``.
    :param most: connections at once.
    :param patience: seconds to wait for one that is free.
    :raises InvalidConfiguration: the URL cannot be read.
    :raises NeedsExtra: the library is not installed.
    :raises StorageUnavailable: the server does not answer.
    """

    words: Mapping[str, str] = _WORDS

    def __init__(self, url: str, *, most: int = _MOST, patience: float = _PATIENCE) -> None:
        try:
            import psycopg  # noqa: PLC0415 - start-up, and an extra
            import psycopg_pool  # noqa: PLC0415
        except ImportError:
            raise NeedsExtra("server", "psycopg") from None
        parts = urlsplit(url)
        # Never with the password.
        self._where = urlunsplit(
            parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        )
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise InvalidConfiguration(
                "this is no URL of a PostgreSQL database",
                where=self._where,
                hint="as postgresql://host/database, with user:password@ before the host",
            ) from None
        self._failure: type[Exception] = psycopg.Error
        self._mistake: type[Exception] = psycopg.IntegrityError
        self._seen_at_once = psycopg.IsolationLevel.REPEATABLE_READ
        self._seen_step_by_step = psycopg.IsolationLevel.READ_COMMITTED
        self._pool = psycopg_pool.ConnectionPool(
            url,
            min_size=1,
            max_size=most,
            timeout=patience,
            kwargs=dict(_KEEPALIVE),
            check=psycopg_pool.ConnectionPool.check_connection,
            open=False,
            name="wheelfit",
        )
        # It writes about every connection that fails; whoever needs one is told the reason.
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
        self._pool.open()
        try:
            self._pool.wait(timeout=patience)
        except psycopg.Error as error:
            self._pool.close()
            try:  # once more: the pool says how long it has waited, and not for what
                psycopg.connect(url, connect_timeout=5).close()
            except psycopg.Error as reason:
                raise self._error(reason) from error
            raise self._error(error) from error

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """Give a transaction that sees one moment and changes nothing."""
        with self._transaction(reads=True) as execute:
            yield execute

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Give a transaction that changes all or nothing."""
        with self._transaction(reads=False) as execute:
            execute("SELECT pg_advisory_xact_lock(?)", (LOCK,))
            yield execute

    def close(self) -> None:
        """Let go of all connections."""
        self._pool.close()

    @contextmanager
    def _transaction(self, *, reads: bool) -> Iterator[Execute]:
        try:
            with self._pool.connection() as connection:
                connection.read_only = reads
                connection.isolation_level = (
                    self._seen_at_once if reads else self._seen_step_by_step
                )

                def execute(sql: str, values: Sequence[Value] = (), /) -> list[Row]:
                    # The statements are ours; what comes from strangers is in the values.
                    text = sql.replace("?", "%s").encode()
                    with connection.execute(text, tuple(values)) as cursor:
                        return cursor.fetchall() if cursor.description is not None else []

                yield execute
        except self._mistake:
            raise  # of ours: the records look before they write
        except self._failure as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> StorageUnavailable:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return StorageUnavailable(f"the database says: {reason[:300]}", where=self._where)
