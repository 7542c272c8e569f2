"""The source of a wheel's bytes: a file, memory, or a download in progress.

The only interface below `wheelfit.wheels.archive.WheelArchive`. The same checks read through every
source, so that a wheel always gets the same verdict.
"""

from __future__ import annotations

import io
import os
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


class ByteSource(Protocol):
    """A source of bytes at any position, for several threads at once.

    It has no current position, and readers do not affect each other.
    """

    @property
    def size(self) -> int:
        """Bytes of the whole file; does not change."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, after waiting for them if necessary.

        :return: all of them; fewer only at the end of the file.
        :raises OSError: the medium failed.
        :raises WheelfitError: the transfer failed.
        """

    def close(self) -> None:
        """Close the file; may be called more than once."""


class LocalFile:
    """A file on disk read by position, as POSIX systems can, without a lock."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._number = file.fileno()
        self.size = os.fstat(self._number).st_size
        """Bytes of the whole file."""

    def fileno(self) -> int:
        """Return the number of the open file, for copies that the kernel makes."""
        return self._number

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends."""
        data = os.pread(self._descriptor(), length, start)
        if len(data) == length or not data:
            return data
        pieces = [data]  # the kernel may return less than requested
        done = len(data)
        while done < length and (data := os.pread(self._descriptor(), length - done, start + done)):
            pieces.append(data)
            done += len(data)
        return b"".join(pieces)

    def _descriptor(self) -> int:
        if self._file.closed:  # its number may belong to another file by now
            raise ValueError("the file is closed")
        return self._number

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class SeekableFile:
    """A file with one position, read by one reader at a time.

    For systems that cannot read by position, and for files that are not on disk.
    """

    def __init__(self, file: BinaryIO, *, owned: bool = False) -> None:
        self._file = file
        self._owned = owned
        self._lock = threading.Lock()
        self.size = file.seek(0, io.SEEK_END)
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends."""
        with self._lock:
            self._file.seek(start)
            return self._file.read(length)

    def close(self) -> None:
        """Close the file if this object owns it."""
        if self._owned:
            self._file.close()


class BytesInMemory:
    """Bytes in memory.

    >>> BytesInMemory(b"wheel").read_at(2, 9)
    b'eel'
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends."""
        return self._data[start : start + length]

    def close(self) -> None:
        """Do nothing."""


def open_local(path: Path) -> ByteSource:
    """Open a file on disk.

    :raises OSError: it cannot be opened.
    """
    file = path.open("rb", buffering=0)
    try:
        if hasattr(os, "pread"):
            return LocalFile(file)
        return SeekableFile(file, owned=True)
    except BaseException:
        file.close()
        raise
