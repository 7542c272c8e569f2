"""Read a remote file at any position, by ranges of bytes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wheelfit.wheels.remote import Range, RemotePart, Span, Suffix
from wheelfit_runtime.errors import UnexpectedStatus
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable


FIRST_REQUEST = 1 << 17
"""Bytes of the first request, from the end, where the directory of most wheels is."""
_FIRST_SIZE, _MIN_SIZE, _MAX_SIZE = 1 << 14, 1 << 20, 16 << 20
"""Bytes of later requests: few at a new position, since often only a header is read there; after
that four times as many each time, within the two limits."""


class RangedFile:
    """A remote file as a `wheelfit.wheels.bytes_source.ByteSource`.

    Its end and the last range are cached. No hash is checked, since that takes the whole file.

    :param where: the URL without credentials, for errors.
    :param first_request: bytes of the first request, from the end.
    :raises RangeUnsupported: the server does not support byte ranges.
    """

    def __init__(
        self,
        fetch: Callable[[Range], RemotePart],
        *,
        where: str,
        first_request: int = FIRST_REQUEST,
    ) -> None:
        self._fetch = fetch
        self._where = where
        end = fetch(Suffix(first_request))
        self._check_length(end)
        self.size = end.extent.total
        """Bytes of the whole file."""
        self.validator = end.extent.validator
        """The validator that every later range must have too: an entity tag, or a date."""
        self._end = (end.extent.start, end.data)
        self._block = self._end
        self._request_size = _FIRST_SIZE
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
            return self._fetched(start, stop)

    def _fetched(self, start: int, stop: int) -> bytes:
        begin, data = self._block
        is_next = begin <= start <= begin + len(data)
        known = data[start - begin :] if is_next else b""
        if is_next:
            self._request_size = min(max(self._request_size * 4, _MIN_SIZE), _MAX_SIZE)
        else:
            self._request_size = _FIRST_SIZE
        missing_start = start + len(known)
        end_start, end = self._end
        if missing_start < end_start:
            request_stop = max(stop, missing_start + self._request_size)
            part = self._fetch(Span(missing_start, min(request_stop, end_start)))
            self._check_length(part)
            if (part.extent.total, part.extent.validator) != (self.size, self.validator):
                raise UnexpectedStatus(
                    "the file changed on the server while it was read",
                    status=206,
                    where=self._where,
                    hint="try again",
                )
            known += part.data
        if stop > end_start:
            known += end
        self._block = (start, known)
        return known[: stop - start]

    def _check_length(self, part: RemotePart) -> None:
        expected = part.extent.stop - part.extent.start
        if len(part.data) != expected:
            raise UnexpectedStatus(
                f"the answer has {count_of(len(part.data), 'byte')} instead of {expected}",
                status=206,
                where=self._where,
            )

    def close(self) -> None:
        """Do nothing: connections are the client's."""
