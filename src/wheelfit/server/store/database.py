"""A database in as many words as the records need: read at one moment, write one at a time."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager


Value: TypeAlias = str | int | bytes | None
"""What is stored in one place."""
Row: TypeAlias = tuple[Any, ...]
"""What comes back, in the order of the statement."""


class Execute(Protocol):
    """Run one statement of SQL."""

    def __call__(self, sql: str, values: Sequence[Value] = (), /) -> list[Row]:
        """Return its rows; none for statements that have none.

        :param sql: with ``?`` for each value, in words that SQLite and PostgreSQL share.
        """


class Database(Protocol):
    """Run statements in transactions, for several threads, processes and machines at once.

    Each method may raise ``StorageUnavailable``, on entering, inside and on leaving; then the
    transaction has done nothing, unless the connection broke while it was being made final.
    """

    words: Mapping[str, str]
    """How it calls the types ``bytes`` and ``number`` of the schema."""

    def reading(self) -> AbstractContextManager[Execute]:
        """Give a transaction that sees one moment and changes nothing."""

    def writing(self) -> AbstractContextManager[Execute]:
        """Give a transaction that changes all or nothing, durably.

        There is one at a time, over all processes and machines: the next one waits, then
        sees everything that this one did. An exception undoes it.
        """

    def probe(self) -> None:
        """Raise an error if it does not answer, or has no room as far as can be seen from here."""

    def close(self) -> None:
        """Let go of all connections; may be called more than once."""


class Turns:
    """A lock that threads get in the order in which they came."""

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
