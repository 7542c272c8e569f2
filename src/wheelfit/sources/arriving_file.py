"""A file that is read while it is still being fetched.

Its bytes come from any number of connections, in any order, and lie in a file on disk from the
first one on, so that gigabytes cost no memory. A read of missing bytes waits for them.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO


class ArrivingFile:
    """A file whose bytes arrive in any order, read by position (a ``ByteSource``).

    :param file: an empty file, open for writing and reading; it stays open.
    :param size: the size of the file in bytes.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        """Bytes of the whole file."""
        self._file = file
        self._stops: dict[int, int] = {0: 0}  # by start, of what is there in one piece
        self._starts: dict[int, int] = {0: 0}  # the same pieces by stop
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._waiting = 0  # how many wait for news: most bytes come when none does
        self._writing = 0
        self._position = threading.Lock()  # of the file, where there is only one

    @classmethod
    def arrived(cls, file: BinaryIO) -> Self:
        """Return a complete file.

        :param file: open for writing and reading; it stays open.
        """
        file.flush()
        size = file.seek(0, os.SEEK_END)
        whole = cls(file, size)
        whole._add(0, size)
        return whole

    # --- those who bring bytes ----------------------------------------------------------

    def write_at(self, start: int, data: bytes) -> None:
        """Write bytes that no other connection writes.

        :param start: position of the first one; they end within the file.
        :param data: the bytes.
        :raises OSError: they cannot be written.
        :raises WheelfitError: the error that ended the transfer.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            self._writing += 1
        stop = start
        try:
            self._write(start, data)
            stop += len(data)
        finally:
            with self._lock:
                self._writing -= 1
                if stop > start:
                    self._add(start, stop)
                if self._waiting:
                    self._news.notify_all()

    def _add(self, start: int, stop: int) -> None:
        first = self._starts.pop(start, start)
        last = self._stops.pop(stop, stop)
        self._stops[first] = last
        self._starts[last] = first

    def fail(self, error: BaseException) -> None:
        """End the file with an error; only the first error counts.

        :param error: the error for all later reads.
        """
        with self._lock:
            if self._error is None:
                self._error = error
            self._news.notify_all()

    def settle(self) -> BaseException | None:
        """Wait until writing to the file has stopped, after `fail`.

        :return: the error that ended the transfer.
        """
        with self._lock:
            self._waiting += 1
            while self._writing:
                self._news.wait()
            self._waiting -= 1
            return self._error

    def start_writing(self, start: int, length: int) -> None:
        """Start writing the received bytes to the disk, without waiting.

        :param start: position of the first byte.
        :param length: the number of bytes.
        """
        from wheelfit.wheels.system_calls import start_writing  # imports ctypes

        start_writing(self._file.fileno(), start, length)

    # --- those who read them ------------------------------------------------------------

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes; wait until they are there.

        :param start: position of the first one.
        :param length: the number of bytes.
        :return: all of them, fewer only where the file ends.
        :raises WheelfitError: the error that ended the transfer.
        """
        stop = min(start + length, self.size)
        if start >= stop:
            return b""
        with self._lock:
            self._wait(lambda: self._holds(start, stop))
        return self._read(start, stop - start)

    @property
    def reach(self) -> int:
        """The start of the first gap; the end of the file where there is none."""
        return self._stops[0]

    def close(self) -> None:
        """Do nothing: the file belongs to the transfer."""

    def _wait(self, is_there: Callable[[], bool]) -> None:
        self._waiting += 1
        try:
            while self._error is None and not is_there():
                self._news.wait()
            if self._error is not None:
                raise self._error
        finally:
            self._waiting -= 1

    def _holds(self, start: int, stop: int) -> bool:
        return any(first <= start and stop <= last for first, last in self._stops.items())

    # --- the file -----------------------------------------------------------------------

    def _write(self, start: int, data: bytes) -> None:
        if hasattr(os, "pwrite"):
            view = memoryview(data)
            while view:
                count = os.pwrite(self._file.fileno(), view, start)
                start, view = start + count, view[count:]
            return
        with self._position:
            self._file.seek(start)
            self._file.write(data)

    def _read(self, start: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            data = os.pread(self._file.fileno(), length, start)
            while len(data) < length:
                more = os.pread(self._file.fileno(), length - len(data), start + len(data))
                if not more:
                    raise OSError(f"the file on disk ends at {start + len(data)}")
                data += more
            return data
        with self._position:
            self._file.seek(start)
            return self._file.read(length)
