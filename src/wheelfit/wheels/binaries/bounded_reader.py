"""Bounded reading of files with untrusted offsets, sizes and counts.

Every step of a reader is a read, and reads are counted, so that an endless loop ends in an error.
Every reader of binaries may raise `Unreadable`: for reads outside of the file, too many reads, and
unknown data.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO

_Item = TypeVar("_Item")


class Unreadable(ValueError):
    """Raised when the structure of a file is invalid or unknown."""


class ReadLimits(Struct, frozen=True):
    """The limits of reading a file."""

    reads: int
    """The number of reads."""
    total: int
    """Bytes of all reads together."""
    read_size: int
    """Bytes of one read."""


FACTS_LIMITS = ReadLimits(400_000, 64 << 20, 1 << 20)
"""Enough for headers, and for fat binaries with some hundred thousand images."""
SYMBOLS_LIMITS = ReadLimits(12_000_000, 1 << 30, 256 << 20)
"""Enough for a million symbols."""

_BASE_READS = 20_000
_BYTES_PER_READ = 16


def collect_items(read_items: Callable[[], Iterable[_Item]], faults: list[str]) -> list[_Item]:
    """Return the items that a function reads, up to the first fault, which is added to `faults`."""
    items: list[_Item] = []
    try:
        items.extend(read_items())
    except Unreadable as error:
        faults.append(str(error))
    return items


class Window:
    """A file with a count of the bytes read from it.

    :param limits: the limits of reading; of a small file fewer reads are allowed.
    """

    def __init__(self, file: BinaryIO, limits: ReadLimits = FACTS_LIMITS) -> None:
        self._file = file
        self.size = file.seek(0, io.SEEK_END)
        """Bytes of the file."""
        self._reads_left = min(limits.reads, _BASE_READS + self.size // _BYTES_PER_READ)
        self._bytes_left = limits.total
        self._max_read_size = limits.read_size

    def read(self, start: int, length: int) -> bytes:
        """Return bytes of the file, all of which must exist."""
        if start < 0 or length < 0 or start + length > self.size:
            size = count_of(length, "byte")
            raise Unreadable(f"it refers to {size} at {start}, past the end of the file")
        return self.read_some(start, length)

    def read_some(self, start: int, length: int) -> bytes:
        """Return bytes of the file, or as many of them as there are."""
        length = max(0, min(length, self.size - start))
        self._reads_left -= 1
        self._bytes_left -= length
        if length > self._max_read_size or self._reads_left < 0 or self._bytes_left < 0:
            raise Unreadable("reading it takes more steps or bytes than for any valid file")
        if not length or start < 0:
            return b""  # seek would fail for an offset that no file can have
        self._file.seek(start)
        return self._file.read(length)

    def unpack(self, layout: str, start: int) -> tuple[int, ...]:
        """Return the numbers at a position, as `struct.unpack` does."""
        return struct.unpack(layout, self.read(start, struct.calcsize(layout)))

    def text(self, start: int, longest: int = 4096) -> str:
        """Return the text at a position, up to its zero byte."""
        if not 0 <= start < self.size:
            raise Unreadable(f"it refers to a text at {start}, past the end of the file")
        data, zero, _ = self.read_some(start, longest + 1).partition(b"\0")
        if not zero:
            raise Unreadable(f"it has a text without an end, at {start}")
        return printable(data)


class Stream:
    """A window as a file object, for a library that reads one."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._position = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        origins = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._window.size}
        self._position = origins[whence] + offset
        if self._position < 0:
            raise Unreadable("it refers to a position before its beginning")
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, length: int = -1) -> bytes:
        """Return the bytes after the position."""
        if length < 0:
            length = max(0, self._window.size - self._position)
        data = self._window.read_some(self._position, length)
        self._position += len(data)
        return data


def printable(text: bytes | str) -> str:
    r"""Return text of a file with unprintable characters escaped, so that it is on one line.

    >>> printable(b"libm.so.6"), printable(b"\x1b[31mlibm")
    ('libm.so.6', '\\x1b[31mlibm')
    """
    shown = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in shown)
