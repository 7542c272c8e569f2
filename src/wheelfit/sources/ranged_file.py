"""Read a remote file at any position, by ranges of bytes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wheelfit.wheels.remote import Span, Suffix
from wheelfit_runtime.errors import UnexpectedStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.wheels.remote import Range, RemotePart

_END = 1 << 17
"""Bytes of the first request, from the end: the directory of most wheels lies there."""
_FIRST, _LEAST, _MOST = 1 << 14, 1 << 20, 16 << 20
"""Bytes of later requests: a few at a new place, for it may be a header that is looked at alone;
where one follows the other four times as many as before, within the other two."""


class RangedFile:
    """A remote file as a `wheelfit.wheels.bytes_source.ByteSource`.

    Its end and the last range are kept. No hash is checked: that takes the whole file.

    :param fetch: gives the bytes of a range.
    :param where: the URL without credentials, for errors.
    :raises RangeUnsupported: the server gives no ranges.
    """

    def __init__(self, fetch: Callable[[Range], RemotePart], *, where: str) -> None:
        self._fetch = fetch
        self._where = where
        end = fetch(Suffix(_END))
        self.size = end.extent.total
        """Bytes of the whole file."""
        self.validator = end.extent.validator
        """The validator that every later range must have too: an entity tag, or a date."""
        self._end = (end.extent.start, end.data)
        self._block = self._end
        self._ahead = _FIRST
        self._lock = threading.Lock()

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends.

        :raises UnexpectedStatus: the file changed meanwhile.
        :raises NetworkError: the server cannot be reached.
        """
        stop = min(start + length, self.size)
        if stop <= start:
            return b""
        with self._lock:
            for begin, data in (self._end, self._block):
                if begin <= start and stop <= begin + len(data):
                    return data[start - begin : stop - begin]
            return self._asked(start, stop)

    def _asked(self, start: int, stop: int) -> bytes:
        begin, data = self._block
        follows = begin <= start <= begin + len(data)
        kept = data[start - begin :] if follows else b""
        self._ahead = min(max(self._ahead * 4, _LEAST), _MOST) if follows else _FIRST
        first = start + len(kept)
        part = self._fetch(Span(first, min(self.size, max(stop, first + self._ahead))))
        if (part.extent.total, part.extent.validator) != (self.size, self.validator):
            raise UnexpectedStatus(
                "the file changed while it was read", status=200, where=self._where
            )
        self._block = (start, kept + part.data)
        return self._block[1][: stop - start]

    def close(self) -> None:
        """Do nothing: connections are the client's."""
