"""A cache in memory up to a size, which keeps the values used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


_T = TypeVar("_T")
_R = TypeVar("_R")


class MemoryCache(Generic[_T]):
    """Values by key up to a number of bytes; each is computed once for all threads.

    >>> memory = MemoryCache[bytes](10, len)
    >>> memory.get("a", lambda: b"12345678") + memory.get("a", lambda: b"never made")
    b'1234567812345678'
    >>> memory.get("b", lambda: b"123") and memory.size
    3

    :param limit: bytes that all values together may have.
    :param size_of: returns the bytes of a value.
    """

    def __init__(self, limit: int, size_of: Callable[[_T], int]) -> None:
        self._limit = limit
        self._size_of = size_of
        self._values: OrderedDict[Hashable, _T] = OrderedDict()
        self._lock = threading.Lock()
        self._key_locks: dict[Hashable, tuple[threading.Lock, int]] = {}
        self.size = 0
        """Bytes of all cached values."""

    def peek(self, key: Hashable) -> _T | None:
        """Return a value; None if it is not cached."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: Hashable, value: _T) -> None:
        """Cache a value, unless it alone exceeds the limit."""
        with self._lock:
            self._drop(key)
            size = self._size_of(value)
            if size > self._limit:
                return
            self._values[key] = value
            self.size += size
            while self.size > self._limit:
                self._drop(next(iter(self._values)))

    def forget(self, key: Hashable) -> None:
        """Remove a value, if it is cached."""
        with self._lock:
            self._drop(key)

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return a value; other threads wait while it is computed.

        :param make: computes a value that is not cached; its errors reach the caller.
        """
        value = self.peek(key)
        if value is not None:
            return value

        def make_once() -> _T:
            value = self.peek(key)
            if value is None:
                value = make()
                self.put(key, value)
            return value

        return self.call_locked(key, make_once)

    def call_locked(self, key: Hashable, function: Callable[[], _R]) -> _R:
        """Call a function that no other thread calls for the same key at the same time."""
        with self._lock:
            lock, waiting = self._key_locks.get(key, (threading.Lock(), 0))
            self._key_locks[key] = (lock, waiting + 1)
        try:
            with lock:
                return function()
        finally:
            with self._lock:
                lock, waiting = self._key_locks[key]
                if waiting == 1:
                    del self._key_locks[key]
                else:
                    self._key_locks[key] = (lock, waiting - 1)

    def _drop(self, key: Hashable) -> None:
        if key in self._values:
            self.size -= self._size_of(self._values.pop(key))
