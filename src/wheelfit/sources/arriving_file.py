"""A file that can be read while it is still being downloaded.

Any number of connections write its bytes, in any order, to a file on disk, so that gigabytes need
no memory. A read of bytes that are missing waits for them.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from typing import BinaryIO


class ArrivingFile:
    """A file whose bytes arrive in any order, read by position (a ``ByteSource``).

    :param file: an empty file, open for writing and reading; it stays open.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        """Bytes of the whole file."""
        self._file = file
        # The contiguous ranges that have arrived.
        self._stop_of_start: dict[int, int] = {0: 0}
        self._start_of_stop: dict[int, int] = {0: 0}
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0  # threads that wait for a change; usually none
        self._writing = 0  # threads that write
        self._position_lock = threading.Lock()  # of the file, for systems without pread and pwrite

    @classmethod
    def complete(cls, file: BinaryIO) -> Self:
        """Return a file that is on the disk already.

        :param file: open for writing and reading; it stays open.
        """
        file.flush()
        size = file.seek(0, os.SEEK_END)
        whole = cls(file, size)
        whole._add(0, size)
        return whole

    # --- writing ------------------------------------------------------------------------

    def write_at(self, start: int, data: bytes) -> None:
        """Write bytes at a position; ranges of different calls must not overlap.

        :param start: position of the first byte.
        :param data: the bytes, which must end within the file.
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
                    self._changed.notify_all()

    def _add(self, start: int, stop: int) -> None:
        """Record a range that has arrived, merged with the ranges beside it."""
        start = self._start_of_stop.pop(start, start)
        stop = self._stop_of_start.pop(stop, stop)
        self._stop_of_start[start] = stop
        self._start_of_stop[stop] = start

    def fail(self, error: BaseException) -> None:
        """End the transfer with an error; later calls change nothing."""
        with self._lock:
            if self._error is None:
                self._error = error
            self._changed.notify_all()

    def wait_for_writers(self) -> BaseException | None:
        """Wait until no thread writes to the file any more, after `fail`.

        :return: the error that ended the transfer.
        """
        with self._lock:
            self._waiting += 1
            while self._writing:
                self._changed.wait()
            self._waiting -= 1
            return self._error

    def start_writeback(self, start: int, length: int) -> None:
        """Make the system write a range to the disk, without waiting for it."""
        from wheelfit.wheels.system_calls import start_writeback  # imports ctypes

        start_writeback(self._file.fileno(), start, length)

    # --- reading ------------------------------------------------------------------------

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes; wait until they have arrived.

        :return: all of them, fewer only where the file ends.
        :raises WheelfitError: the error that ended the transfer.
        """
        stop = min(start + length, self.size)
        if start >= stop:
            return b""
        with self._lock:
            self._waiting += 1
            try:
                while self._error is None and not self._has_arrived(start, stop):
                    self._changed.wait()
                if self._error is not None:
                    raise self._error
            finally:
                self._waiting -= 1
        return self._read(start, stop - start)

    @property
    def arrived_size(self) -> int:
        """Bytes at the beginning of the file that have arrived without a gap."""
        return self._stop_of_start[0]

    def close(self) -> None:
        """Do nothing: the file belongs to the transfer."""

    def _has_arrived(self, start: int, stop: int) -> bool:
        return any(first <= start and stop <= last for first, last in self._stop_of_start.items())

    # --- the file on disk ---------------------------------------------------------------

    def _write(self, start: int, data: bytes) -> None:
        if hasattr(os, "pwrite"):
            view = memoryview(data)
            while view:
                count = os.pwrite(self._file.fileno(), view, start)
                start, view = start + count, view[count:]
            return
        with self._position_lock:
            self._file.seek(start)
            self._file.write(data)

    def _read(self, start: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            data = os.pread(self._file.fileno(), length, start)
            while len(data) < length:
                piece = os.pread(self._file.fileno(), length - len(data), start + len(data))
                if not piece:
                    raise OSError(f"the file on disk ends at {start + len(data)}")
                data += piece
            return data
        with self._position_lock:
            self._file.seek(start)
            return self._file.read(length)
