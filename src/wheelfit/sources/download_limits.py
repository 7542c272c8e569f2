"""How much is downloaded: connections to a server at a time, and bytes of wheels in all."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Self

from wheelfit.core.sizes import size_in_words
from wheelfit.errors import TooLarge
from wheelfit.sources.settings import DEFAULT_CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.sources.urls import Origin


class ConnectionSlot:
    """The right to one connection; a context manager that gives it back.

    :param give_back: called once.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._lock = threading.Lock()  # taken for good when it is given back

    def give_back(self) -> None:
        """Release the slot for another file; may be called again."""
        if self._lock.acquire(blocking=False):
            self._give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


class ConnectionLimits:
    """The connections to each server; a file that waits for its first one comes first.

    :param most: the most connections to each server.
    """

    def __init__(self, most: int = DEFAULT_CONNECTIONS) -> None:
        self.most = most
        """How many each server gets."""
        self._taken: Counter[Origin] = Counter()
        self._waiting: Counter[Origin] = Counter()
        self._news = threading.Condition()

    def take(self, server: Origin) -> ConnectionSlot:
        """Take the first connection for a file; wait until one is free.

        :param server: the server of the file.
        """
        with self._news:
            self._waiting[server] += 1
            try:
                while self._taken[server] >= self.most:
                    self._news.wait()
            finally:
                self._waiting[server] -= 1
            return self._taken_by(server)

    def take_another(self, server: Origin) -> ConnectionSlot | None:
        """Take one more connection for a file, if one is free and no file waits for its first.

        :param server: the server of the file.
        """
        with self._news:
            if self._waiting[server] or self._taken[server] >= self.most:
                return None
            return self._taken_by(server)

    def _taken_by(self, server: Origin) -> ConnectionSlot:
        self._taken[server] += 1
        return ConnectionSlot(partial(self._give_back, server))

    def is_wanted(self, server: Origin) -> bool:
        """Return whether a file waits for its first connection.

        :param server: the server of the file.
        """
        return self._waiting[server] > 0

    def _give_back(self, server: Origin) -> None:
        with self._news:
            self._taken[server] -= 1
            self._news.notify_all()


class Budget:
    """The count of bytes fetched from servers; sizes that are not announced count as they come.

    :param most: bytes of whole wheels that may be fetched; None: as many as there are.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._spent = 0
        self._lock = threading.Lock()

    def ask(self, count: int | None, where: str) -> None:
        """Check the limits before a file is fetched.

        :param count: its bytes; None: unknown.
        :param where: the URL, for errors.
        :raises TooLarge: it would be too much.
        """
        with self._lock:
            self._check(self._spent + (count or 0), where)

    def spend(self, count: int, where: str) -> None:
        """Add bytes that have come.

        :param count: the number of bytes.
        :param where: the URL, for errors.
        :raises TooLarge: it is too much.
        """
        with self._lock:
            self._spent += count
            self._check(self._spent, where)

    def _check(self, total: int, where: str) -> None:
        if self._most is not None and total > self._most:
            raise TooLarge(
                f"with this file more would be downloaded than the {size_in_words(self._most)} "
                "that are allowed (--max-download)",
                where=where,
                hint="raise --max-download; an index with sizes, or a server with ranges or "
                "metadata, shows the size before the download",
            )
