"""How many bytes of wheels may be fetched, counted while they come."""

from __future__ import annotations

import threading

from wheelfit.core.sizes import size_in_words
from wheelfit.errors import TooLarge


class Budget:
    """The count of bytes fetched from servers; sizes that are not announced count as they come.

    :param most: bytes of whole wheels that may be fetched; None: as many as there are.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._spent = 0
        self._lock = threading.Lock()

    def ask(self, count: int | None, where: str) -> None:
        """Make sure, before a file is fetched, that it may be.

        :param count: its bytes; None: nobody said.
        :param where: the URL, for errors.
        :raises TooLarge: it would be too much.
        """
        with self._lock:
            self._check(self._spent + (count or 0), where)

    def spend(self, count: int, where: str) -> None:
        """Add bytes that have come.

        :param count: how many.
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
                hint="allow more; an index that tells sizes, or a server that gives ranges or "
                "metadata, lets it be known before",
            )
