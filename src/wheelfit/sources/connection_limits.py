"""How many connections to one server may carry files at the same time."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Self

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
        """Let another file have it; may be called again."""
        if self._lock.acquire(blocking=False):
            self._give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


class ConnectionLimits:
    """The connections to each server; a file that waits for its first one comes first.

    :param most: how many each server gets.
    """

    def __init__(self, most: int = DEFAULT_CONNECTIONS) -> None:
        self.most = most
        """How many each server gets."""
        self._taken: Counter[Origin] = Counter()
        self._waiting: Counter[Origin] = Counter()
        self._news = threading.Condition()

    def take(self, server: Origin) -> ConnectionSlot:
        """Take the first connection for a file; wait until one is free.

        :param server: who gives the file.
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

        :param server: who gives the file.
        """
        with self._news:
            if self._waiting[server] or self._taken[server] >= self.most:
                return None
            return self._taken_by(server)

    def _taken_by(self, server: Origin) -> ConnectionSlot:
        self._taken[server] += 1
        return ConnectionSlot(partial(self._give_back, server))

    def is_wanted(self, server: Origin) -> bool:
        """Say whether a file waits for its first connection.

        :param server: who gives it.
        """
        return self._waiting[server] > 0

    def _give_back(self, server: Origin) -> None:
        with self._news:
            self._taken[server] -= 1
            self._news.notify_all()
