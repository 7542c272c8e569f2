"""Do a thing once, whoever asks first: the memory that several threads share."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Key = TypeVar("Key", bound="Hashable")
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """Results by key; errors are remembered as well.

    Whoever asks first does the work in their own thread, the others wait for it.
    Work may ask for other keys, as long as that goes one way only.
    """

    def __init__(self) -> None:
        self._futures: dict[Key, Future[Value]] = {}
        self._values: dict[Key, Value] = {}
        self._lock = Lock()

    def get(self, key: Key, work: Callable[[], Value]) -> Value:
        """Return the result for a key, doing the work if nobody has.

        :raises BaseException: whatever the work raised, to everybody who asks.
        """
        try:
            return self._values[key]
        except KeyError:
            pass
        with self._lock:
            future = self._futures.get(key)
            if future is None:
                mine = self._futures[key] = Future()
        if future is not None:
            return future.result()
        try:
            value = work()
        except BaseException as error:
            if not isinstance(error, Exception):
                del self._futures[key]  # an interruption is nobody's result
            mine.set_exception(error)
            raise
        self._values[key] = value
        mine.set_result(value)
        return value
