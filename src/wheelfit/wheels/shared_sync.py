"""Sync a file system once for many threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class SharedSync:
    """A sync of a file system that waiting threads share, if it began after their call.

    >>> SharedSync().wait(lambda: True)
    True
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = self._done = self._failed = 0  # numbers of syncs
        self._error = OSError()
        self._is_running = False

    def wait(self, sync: Callable[[], bool]) -> bool:
        """Sync everything that was written until now.

        :param sync: syncs the file system; returns False where the system cannot do that.
        :return: whether it was synced.
        :raises OSError: something could not be written. The system may report that once only, so
            every waiting thread gets the error.
        """
        with self._changed:
            number = self._begun + 1
            while True:
                if self._failed >= number:
                    raise OSError(*self._error.args)
                if self._done >= number:
                    return True
                if self._is_running:
                    self._changed.wait()
                elif not self._run(sync):
                    return False

    def _run(self, sync: Callable[[], bool]) -> bool:
        """Sync, with the lock released; return False where the system cannot do that."""
        self._begun = number = self._begun + 1
        self._is_running = True
        self._changed.release()
        is_done, error = False, None
        try:
            is_done = sync()
        except OSError as failure:
            error = failure
        finally:
            self._changed.acquire()
            self._is_running = False
            self._changed.notify_all()
        if error is not None:
            self._failed, self._error = number, error
        elif is_done:
            self._done = number
        return is_done or error is not None
