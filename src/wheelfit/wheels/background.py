"""Calls of a function in another thread, while the caller prepares what comes next."""

from __future__ import annotations

import threading
from queue import Queue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Item = TypeVar("Item")

_MAX_WAITING = 8


class BackgroundCalls(Generic[Item]):
    """Calls of a function for one item after the other, in another thread.

    Entering returns the function that hands over an item; it blocks while eight items are waiting.
    Leaving waits for the last call, or, after an error, for the current one. After a failed
    call no other one is made, and its error is raised by the next hand-over or at the end.

    >>> lines = []
    >>> with BackgroundCalls(lines.append) as hand_over:
    ...     hand_over("first")
    ...     hand_over("second")
    >>> lines
    ['first', 'second']
    """

    def __init__(self, function: Callable[[Item], object], name: str = "background") -> None:
        self._function = function
        self._items: Queue[tuple[Item] | None] = Queue(_MAX_WAITING)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Callable[[Item], None]:
        self._thread.start()
        return self._hand_over

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._failure = error  # so that waiting items are skipped
        try:
            self._end()
        except BaseException as interruption:  # Ctrl-C: no call may follow
            self._failure = interruption
            self._end()
            raise
        if error is None and self._failure is not None:
            raise self._failure

    def _end(self) -> None:
        self._items.put(None)
        self._thread.join()

    def _hand_over(self, item: Item) -> None:
        if self._failure is not None:
            raise self._failure
        self._items.put((item,))

    def _run(self) -> None:
        while (item := self._items.get()) is not None:
            if self._failure is None:
                try:
                    self._function(*item)
                except BaseException as error:  # noqa: BLE001 - raised in the other thread
                    self._failure = error
