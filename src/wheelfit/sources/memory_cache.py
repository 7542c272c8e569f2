"""A cache in memory up to a size, which keeps the values used last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


_T = TypeVar("_T")
_R = TypeVar("_R")


class Memory(Generic[_T]):
    """Values by key up to a number of bytes; each is computed once for all threads.

    >>> memory = Memory[bytes](10, len)
    >>> memory.get("a", lambda: b"12345678") + memory.get("a", lambda: b"never made")
    b'1234567812345678'
    >>> memory.get("b", lambda: b"123") and memory.size
    3

    :param most: bytes that all together may have.
    :param size_of: returns the bytes of a value.
    """

    def __init__(self, most: int, size_of: Callable[[_T], int]) -> None:
        self._most = most
        self._size_of = size_of
        self._kept: OrderedDict[Hashable, _T] = OrderedDict()
        self._lock = threading.Lock()
        self._makers: dict[Hashable, tuple[threading.Lock, int]] = {}
        self.size = 0
        """Bytes of what is kept now."""

    def peek(self, key: Hashable) -> _T | None:
        """Return a value if it is kept.

        :param key: the key.
        """
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key]

    def put(self, key: Hashable, value: _T) -> None:
        """Keep a value; one that alone is too large is not kept.

        :param key: the key.
        :param value: the value.
        """
        with self._lock:
            self._drop(key)
            size = self._size_of(value)
            if size > self._most:
                return
            self._kept[key] = value
            self.size += size
            while self.size > self._most:
                self._drop(next(iter(self._kept)))

    def forget(self, key: Hashable) -> None:
        """Keep a value no longer, if it is kept.

        :param key: the key.
        """
        with self._lock:
            self._drop(key)

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return a value; other threads wait while it is computed.

        :param key: the key.
        :param make: computes it where it is not cached; its errors reach the caller.
        """
        value = self.peek(key)
        if value is not None:
            return value
        return self.alone(key, lambda: self._made(key, make))

    def alone(self, key: Hashable, work: Callable[[], _R]) -> _R:
        """Call a function that no other thread calls for the same key meanwhile.

        :param key: the key.
        :param work: the function.
        """
        with self._lock:
            lock, waiting = self._makers.get(key, (threading.Lock(), 0))
            self._makers[key] = (lock, waiting + 1)
        try:
            with lock:
                return work()
        finally:
            with self._lock:
                lock, waiting = self._makers[key]
                if waiting == 1:
                    del self._makers[key]
                else:
                    self._makers[key] = (lock, waiting - 1)

    def _made(self, key: Hashable, make: Callable[[], _T]) -> _T:
        value = self.peek(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def _drop(self, key: Hashable) -> None:
        if key in self._kept:
            self.size -= self._size_of(self._kept.pop(key))
