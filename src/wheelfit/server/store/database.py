"""A database, its transactions, and the migrations of its tables, which are never reverted."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from wheelfit.errors import StorageUnavailable
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wheelfit.server.backing_services import Dependency, DependencyUse


Value: TypeAlias = str | int | bytes | None
"""A stored value."""
Row: TypeAlias = tuple[Any, ...]
"""The columns of a result, in the order of the statement."""


class Execute(Protocol):
    """A function that runs one statement of SQL."""

    def __call__(self, sql: str, values: Sequence[Value] = (), /) -> list[Row]:
        """Return the rows of a statement.

        :param sql: with ``?`` for each value, in the SQL that SQLite and PostgreSQL share.
        """


class Database:
    """A database for several threads, processes and machines at once.

    Its connections are used again by all threads. Each method may raise ``StorageUnavailable``, on
    entering, inside and on leaving; then the transaction has done nothing, unless the connection
    broke during the commit.

    :param where: its address for errors, without credentials.
    :param lock_timeout: seconds that a writer waits for other writers.
    """

    column_types: Mapping[str, str]
    """The SQL types of the schema's column types ``bytes`` and ``number``."""
    error_type: type[Exception]
    """The base class of the database's errors."""
    constraint_error: type[Exception]
    """The class of errors for broken constraints, which are faults of the caller."""
    deadlines: tuple[float, float]
    """Seconds after which a reading and a writing transaction is ended."""

    def __init__(self, where: str, lock_timeout: float, dependency: Dependency) -> None:
        self._where = where
        self._lock_timeout = lock_timeout
        self._dependency = dependency
        # Writers wait here: in the database they would have to retry, or would occupy the
        # connections that readers need.
        self._writers = FairLock()
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        """Open a read-only transaction, in which all statements read the same state."""
        with (
            self._dependency.use(timeout=self.deadlines[0]) as use,
            self._transaction(use, reads=True) as execute,
        ):
            yield execute

    @contextmanager
    def writing(self) -> Iterator[Execute]:
        """Open a transaction with durable changes, all of which an exception undoes.

        There is one at a time, over all processes and machines; the next one sees all of it.
        """
        if not self._writers.acquire(self._lock_timeout):
            raise StorageUnavailable("the database is busy with other writers", where=self._where)
        try:
            with (
                self._dependency.use(timeout=self.deadlines[1], is_long=True) as use,
                self._transaction(use, reads=False) as execute,
            ):
                yield execute
        finally:
            self._writers.release()

    def probe(self) -> None:
        """Raise an error if it does not answer, or its disk on this machine is full."""
        with self.reading() as execute:
            execute("SELECT 1")

    def close(self) -> None:
        """Close all connections; may be called more than once."""
        with self._lock:
            self._closed = True
        self._close_idle()

    @contextmanager
    def _transaction(self, use: DependencyUse, *, reads: bool) -> Iterator[Execute]:
        connection = None
        is_sound = False
        try:
            connection = self._begin(use, reads=reads)
            yield partial(self._execute, connection)
            self._execute(connection, "COMMIT")
            is_sound = True
        except self.constraint_error:
            raise
        except UnicodeEncodeError as error:  # arguments of a command may be any bytes
            shown = ascii(error.object)[1:-1][:80]
            raise InvalidConfiguration("the text is not valid Unicode", where=shown) from None
        except self.error_type as error:
            raise self._error(error, reads=reads) from error
        finally:
            use.cancel = None
            if connection is not None:
                self._return(connection, is_sound=is_sound)

    def _take_idle(self) -> Any | None:
        """Return an idle connection, if there is one."""
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the database is closed", where=self._where)
            return self._idle.pop() if self._idle else None

    def _return(self, connection: Any, *, is_sound: bool) -> None:
        """Store a connection for the next transaction, or close it, which rolls back."""
        if is_sound:
            with self._lock:
                if not self._closed:
                    self._idle.append(connection)
                    return
        connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begin(self, use: DependencyUse, *, reads: bool) -> Any:
        """Return a connection in a new transaction, and make `use.cancel` end its calls."""
        raise NotImplementedError

    def _execute(self, connection: Any, sql: str, values: Sequence[Value] = (), /) -> list[Row]:
        """Run a statement; see `Execute`."""
        raise NotImplementedError

    def _error(self, error: Exception, *, reads: bool) -> StorageUnavailable:
        """Return an error of the database as ``StorageUnavailable``."""
        raise NotImplementedError


def insert(execute: Execute, table: str, **values: Value) -> None:
    """Add a row to a table, whose columns are named by the keywords."""
    placeholders = ", ".join("?" * len(values))
    sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({placeholders})"  # noqa: S608 - ours
    execute(sql, tuple(values.values()))


def timestamp(time: datetime) -> str:
    """Return a time with a time zone as text in UTC (RFC 3339), which sorts by time.

    >>> from datetime import datetime
    >>> timestamp(datetime(2026, 1, 2, tzinfo=UTC))
    '2026-01-02T00:00:00.000000Z'
    """
    plain = time.astimezone(UTC).replace(tzinfo=None)
    return f"{plain.isoformat(timespec='microseconds')}Z"


class FairLock:
    """A lock that threads acquire in the order of their requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_locked = False

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock; return False if it could not be acquired in time."""
        with self._lock:
            if not self._is_locked:
                self._is_locked = True
                return True
            waiter = threading.Event()
            self._waiting.append(waiter)
        if waiter.wait(timeout):
            return True
        with self._lock:
            if waiter.is_set():
                return True  # acquired at the last moment
            self._waiting.remove(waiter)
            return False

    def release(self) -> None:
        """Release the lock."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_locked = False


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # One row: the number of the last change.
        "CREATE TABLE counter (value {number} NOT NULL)",
        "INSERT INTO counter (value) VALUES (0)",
        "CREATE TABLE project (name TEXT PRIMARY KEY, serial {number} NOT NULL)",
        (
            "CREATE TABLE owner (project TEXT NOT NULL, name TEXT NOT NULL,"
            " PRIMARY KEY (project, name))"
        ),
        # A file without a stage ('') is visible to all readers.
        (
            "CREATE TABLE file (filename TEXT PRIMARY KEY, folded TEXT NOT NULL UNIQUE,"
            " project TEXT NOT NULL, version TEXT NOT NULL, spelling TEXT NOT NULL, label TEXT,"
            " sha256 TEXT NOT NULL, size {number} NOT NULL, uploaded TEXT NOT NULL,"
            " requires_python TEXT, metadata {bytes}, metadata_sha256 TEXT, document {bytes},"
            " provenance {bytes}, yanked TEXT, stage TEXT NOT NULL)"
        ),
        "CREATE INDEX file_of_stage ON file (stage, project)",
        "CREATE INDEX file_of_bytes ON file (sha256)",
        # The document of a release by the index: its -variants.json.
        (
            "CREATE TABLE release_document (filename TEXT PRIMARY KEY, project TEXT NOT NULL,"
            " version TEXT NOT NULL, content {bytes} NOT NULL, sha256 TEXT NOT NULL,"
            " size {number} NOT NULL)"
        ),
        "CREATE UNIQUE INDEX document_of_release ON release_document (project, version)",
        (
            "CREATE TABLE tombstone (folded TEXT PRIMARY KEY, filename TEXT NOT NULL,"
            " project TEXT NOT NULL, sha256 TEXT NOT NULL, deleted TEXT NOT NULL)"
        ),
        (
            "CREATE TABLE stage (id TEXT PRIMARY KEY, secret {bytes} NOT NULL UNIQUE,"
            " owner TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL)"
        ),
        (
            "CREATE TABLE token (id TEXT PRIMARY KEY, secret {bytes} NOT NULL UNIQUE,"
            " owner TEXT NOT NULL, scopes TEXT NOT NULL, projects TEXT, created TEXT NOT NULL,"
            " expires TEXT, note TEXT NOT NULL)"
        ),
    ),
    (
        # A stage that is a publishing session (PEP 694), and the uploads to it.
        (
            "CREATE TABLE session (id TEXT PRIMARY KEY, project TEXT NOT NULL,"
            " version TEXT NOT NULL, spelling TEXT NOT NULL, status TEXT NOT NULL,"
            " token TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL)"
        ),
        "CREATE INDEX session_of_release ON session (project, version)",
        (
            "CREATE TABLE upload (id TEXT PRIMARY KEY, session TEXT NOT NULL,"
            " filename TEXT NOT NULL, size {number} NOT NULL, hashes TEXT NOT NULL,"
            " status TEXT NOT NULL)"
        ),
        "CREATE INDEX upload_of_session ON upload (session, filename)",
    ),
    (
        # With all that the list of recent uploads reads, so that it needs no row of the table;
        # but no reason of a yank, which may be too long for an index of PostgreSQL.
        (
            "CREATE INDEX file_of_time ON file (stage, uploaded, yanked, project, spelling)"
            " WHERE yanked IS NULL"
        ),
    ),
    (
        # Changes and refusals, with actor and address.
        (
            "CREATE TABLE audit (serial {number} NOT NULL PRIMARY KEY, time TEXT NOT NULL,"
            " action TEXT NOT NULL, outcome TEXT NOT NULL, project TEXT NOT NULL,"
            " subject TEXT NOT NULL, owner TEXT NOT NULL, token TEXT NOT NULL,"
            " note TEXT NOT NULL, address TEXT NOT NULL, detail TEXT NOT NULL)"
        ),
        "CREATE INDEX audit_of_project ON audit (project, serial)",
        "CREATE INDEX audit_of_time ON audit (time)",
    ),
    (
        # The last entry of the audit log delivered to a webhook, and the time of the next delivery.
        (
            "CREATE TABLE webhook (id TEXT PRIMARY KEY, serial {number} NOT NULL,"
            " attempts {number} NOT NULL, due TEXT NOT NULL)"
        ),
    ),
    # The statuses of projects (PEP 792); projects without a row are active.
    (
        (
            "CREATE TABLE project_status (project TEXT PRIMARY KEY, marker TEXT NOT NULL,"
            " reason TEXT NOT NULL)"
        ),
    ),
)
"""For each version of the schema, from 1, the statements that upgrade the version before."""


def migrate(database: Database) -> int:
    """Upgrade the tables to the version of this code; return the number of steps.

    Each step is one transaction that also stores its number, so a killed upgrade continues where it
    stopped, and several may run at once.

    :raises InvalidConfiguration: a newer wheelfit has changed the tables.
    """
    steps = 0
    while True:
        with database.writing() as execute:
            version = _version(execute)
            if version > len(MIGRATIONS):
                raise InvalidConfiguration(
                    f"the database has version {version} of the tables, and this wheelfit "
                    f"supports versions up to {len(MIGRATIONS)}",
                    hint="use the newer wheelfit that changed it; tables are never downgraded",
                )
            if version == len(MIGRATIONS):
                return steps
            for statement in MIGRATIONS[version]:
                execute(statement.format_map(database.column_types))
            execute("UPDATE schema_version SET version = ?", (version + 1,))
            steps += 1


def _version(execute: Execute) -> int:
    execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    rows = execute("SELECT version FROM schema_version")
    if not rows:
        execute("INSERT INTO schema_version (version) VALUES (0)")
        return 0
    return int(rows[0][0])
