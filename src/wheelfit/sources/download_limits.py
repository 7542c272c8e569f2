"""Limits on downloads: connections to each server, and bytes of wheels in total."""

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
    """The right to one connection, released by `release` or at the end of a ``with`` block.

    :param release: called once.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._released = threading.Lock()  # acquired by the first release, and never released

    def release(self) -> None:
        """Release the slot for another file; may be called again."""
        if self._released.acquire(blocking=False):
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class ConnectionLimits:
    """The limit on connections to each server, which prefers files that have none yet."""

    def __init__(self, limit: int = DEFAULT_CONNECTIONS) -> None:
        self._limit = limit
        self._taken: Counter[Origin] = Counter()
        self._waiting_files: Counter[Origin] = Counter()
        self._changed = threading.Condition()

    def take(self, server: Origin) -> ConnectionSlot:
        """Take the first connection for a file; wait until one is free."""
        with self._changed:
            self._waiting_files[server] += 1
            try:
                while self._taken[server] >= self._limit:
                    self._changed.wait()
            finally:
                self._waiting_files[server] -= 1
            return self._slot(server)

    def take_another(self, server: Origin) -> ConnectionSlot | None:
        """Take one more connection for a file.

        :return: None if no connection is free, or another file waits for its first one.
        """
        with self._changed:
            if self._waiting_files[server] or self._taken[server] >= self._limit:
                return None
            return self._slot(server)

    def has_waiting_file(self, server: Origin) -> bool:
        """Return whether a file waits for its first connection."""
        return self._waiting_files[server] > 0

    def _slot(self, server: Origin) -> ConnectionSlot:
        self._taken[server] += 1
        return ConnectionSlot(partial(self._release, server))

    def _release(self, server: Origin) -> None:
        with self._changed:
            self._taken[server] -= 1
            self._changed.notify_all()


class DownloadBudget:
    """The number of bytes that may still be fetched.

    :param limit: bytes of whole wheels that may be fetched; None: no limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._spent = 0
        self._lock = threading.Lock()

    def check(self, size: int | None, where: str) -> None:
        """Check the limit before a file is fetched.

        :param size: bytes of the file; None if unknown, so that its bytes count as they arrive.
        :raises TooLarge: the file would exceed the limit.
        """
        with self._lock:
            self._check_total(self._spent + (size or 0), where)

    def spend(self, count: int, where: str) -> None:
        """Count bytes that have arrived.

        :raises TooLarge: they exceed the limit.
        """
        with self._lock:
            self._spent += count
            self._check_total(self._spent, where)

    def _check_total(self, total: int, where: str) -> None:
        if self._limit is not None and total > self._limit:
            raise TooLarge(
                f"downloading this file would exceed the {size_in_words(self._limit)} that are "
                "allowed (--max-download)",
                where=where,
                hint="raise --max-download; an index with sizes, or a server with ranges or "
                "metadata, shows the size before the download",
            )
