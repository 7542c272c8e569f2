"""The segmented download of a large file, which can be read while it arrives.

The end is fetched first, because an archive has its directory there. The rest is fetched in order,
in ranges: by one connection, or by several if one is too slow. Every answer must be of the same
version of the file; otherwise, or if the server does not support ranges, `UnusableDownload` is
raised, and the caller downloads the file as a single stream.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from wheelfit.sources.arriving_file import ArrivingFile
from wheelfit.sources.hash_check import HashCheck
from wheelfit.sources.retries import RETRY_STATUSES
from wheelfit.sources.transport import Interrupted, Response
from wheelfit.sources.urls import origin, redact
from wheelfit.wheels.remote import Extent, Range, RangeUnsupported, Span, Suffix, announced_extent
from wheelfit_runtime.errors import HashMismatch, UnexpectedStatus, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from wheelfit.sources.client import Client
    from wheelfit.sources.download_limits import ConnectionLimits, ConnectionSlot, DownloadBudget
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress


MIN_SIZE = 8 << 20
"""Bytes of the smallest file that is worth several requests."""

_MIN_TAIL_SIZE, _MAX_TAIL_SIZE = 128 << 10, 2 << 20  # opening an archive reads a little over 64 KiB
_TAIL_SHARE = 256  # directory and RECORD of a wheel with thousands of files fit in this part of it
_BLOCK = 256 << 10
_MAX_REQUEST_SIZE = 64 << 20  # most bytes requested at once, since a fast server may become slow
_WRITE_BACK = 16 << 20  # bytes after which writing to the disk begins


@dataclass(frozen=True, slots=True)
class SegmentPolicy:
    """The size of segments, and the speed below which one connection is too slow."""

    segment_size: int = 8 << 20
    """Bytes that one of several connections fetches at a time."""
    sufficient_speed: float = 80e6
    """Bytes a second at which no further connection is opened."""
    measuring_time: float = 0.05
    """The least seconds after which the speed of a connection is known."""
    clock: Callable[[], float] = time.monotonic
    """Returns seconds."""


class UnusableDownload(Exception):
    """Raised when a download in parts cannot be used or continued; a plain one may succeed.

    :param reason: the reason, as a clause for messages.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Refused(UnusableDownload):
    """Raised when the server refuses a request, perhaps because of too many connections."""


class _Ended(Exception):
    """Raised when the download was cancelled."""


@dataclass(slots=True)
class _Segment:
    """The bytes that one connection fetches."""

    position: int
    """The offset of the next byte to fetch."""
    stop: int


class SegmentedDownload:
    """The download of one file by background threads.

    :param target: an empty file, open for writing and reading.
    :param connections: the limit on connections; one is already held for this file.
    :raises RangeUnsupported: the server does not support ranges.
    :raises UnusableDownload: it sends other ranges than requested.
    :raises Interrupted: it broke off.
    :raises UnexpectedStatus: the server answered with another status.
    :raises TooLarge: the file is larger than the limits allow.
    """

    def __init__(
        self,
        client: Client,
        file: File,
        size: int,
        target: BinaryIO,
        *,
        progress: Progress,
        budget: DownloadBudget,
        connections: ConnectionLimits,
        policy: SegmentPolicy,
    ) -> None:
        self._client = client
        self._file = file
        self._where = redact(file.url)
        self._server = origin(file.url)
        self._progress = progress
        self._budget = budget
        self._connections = connections
        self._policy = policy
        self._changed = threading.Condition()
        self._is_ended = False
        self._responses: set[Response] = set()
        self._workers = 1
        self._has_idle_worker = False
        self._may_open_more = True
        self._returned: list[_Segment] = []
        self._next = 0
        self._speed = 0.0
        self._hashing = threading.Lock()
        self._flushed_to = 0  # the end of the part whose writing to disk has begun
        self._is_verified = threading.Event()
        self._begin(target, size)

    # --- the end of the file --------------------------------------------------------

    def _begin(self, target: BinaryIO, size: int) -> None:
        """Fetch the end of the file, whose validator all other answers must match."""
        self._budget.check(size, self._where)
        self._check = HashCheck(self._file.hashes, size, where=self._where)
        byte_range = Suffix(min(max(_MIN_TAIL_SIZE, size // _TAIL_SHARE), _MAX_TAIL_SIZE))
        with self._client.stream(self._file.url, headers=_headers(byte_range, "")) as (answer, _):
            extent = self._extent(byte_range, answer)
            if extent.total != size:
                raise UnusableDownload("the file has another size than promised")
            self.validator = extent.validator
            """The validator of the file that every answer must repeat; empty: none is sent."""
            self.source = ArrivingFile(target, size)
            """The file, which may be read from now on."""
            self._progress.start(size)
            self._end = 0  # no range can be claimed yet, so no more connections are opened
            self._receive(answer, _Segment(extent.start, extent.stop))
        self._end, self._speed = extent.start, 0.0

    def start(self, slot: ConnectionSlot) -> None:
        """Fetch the rest, in threads of their own.

        :param slot: the slot of the first thread, which it releases.
        """
        self._start_worker(slot)

    def finish(self) -> None:
        """Wait until the file is complete and verified.

        :raises UnusableDownload: the received bytes cannot be trusted.
        :raises HashMismatch: a promised hash does not match.
        :raises Unreachable: it broke off, repeatedly.
        :raises TooLarge: the file is larger than the limits allow.
        :raises OSError: it cannot be written.
        """
        self._is_verified.wait()
        error = self.source.wait_for_writers()
        if error is not None:
            self.cancel()
            raise error
        self._progress.done()

    def cancel(self) -> BaseException | None:
        """End the download at once, and wait until its threads have stopped writing.

        :return: the earlier error; None if there was none.
        """
        ended = _Ended()
        self.source.fail(ended)
        with self._changed:
            self._is_ended = True
            for response in self._responses:
                response.cancel()
            self._changed.notify_all()
        with self._hashing:
            pass  # wait until no thread reads the file for its hash
        error = self.source.wait_for_writers()
        return None if error is ended else error

    # --- threads ----------------------------------------------------------------------

    def _start_worker(self, slot: ConnectionSlot) -> None:
        start_thread(partial(self._work, slot), self._fail, "transfer")

    def _fail(self, error: BaseException) -> None:
        self.source.fail(error)
        self._is_verified.set()

    def _hash(self, start: int, data: bytes) -> None:
        """Hash the received bytes that follow the hashed part without a gap.

        :param start: the offset of bytes just received, which need not be read again.
        """
        if start > self._check.count:
            return  # the thread that closes the gap hashes these bytes as well
        with self._hashing:
            if start == self._check.count:
                self._update(data)
            while (behind := self.source.arrived_size - self._check.count) > 0:
                self._update(self.source.read_at(self._check.count, min(_BLOCK, behind)))
            if self._check.count == self.source.size:
                self._verify()

    def _update(self, data: bytes) -> None:
        self._check.update(data)
        count = self._check.count
        if count - self._flushed_to >= _WRITE_BACK:
            self.source.start_writeback(self._flushed_to, count - self._flushed_to)
            self._flushed_to = count

    def _verify(self) -> None:
        """Compare the hash of the whole with the promised hash."""
        try:
            self._check.finish()
        except HashMismatch:
            if self.has_strong_validator:
                raise
            raise UnusableDownload("the hash of the complete file is wrong") from None
        self._is_verified.set()

    @property
    def has_strong_validator(self) -> bool:
        """Whether equal validators prove that all segments are of one version (RFC 9110, 8.8.1)."""
        return self.validator.startswith('"')

    def _work(self, slot: ConnectionSlot) -> None:
        """Fetch ranges until none is left, in one of possibly several threads."""
        with slot:
            while (segment := self._claim()) is not None:
                try:
                    self._fetch(segment)
                except (Unreachable, _Refused):
                    # The server may allow one connection only, so the others continue.
                    if not self._return_to_others(segment):
                        raise
                    return

    def _claim(self) -> _Segment | None:
        """Return the next range to fetch; None if there is none left for the calling thread.

        One idle thread waits for ranges that others may return; further ones end.
        """
        with self._changed:
            while not self._is_ended:
                if self._returned:
                    return self._returned.pop(0)
                is_last = self._workers == 1
                if not is_last and self._connections.has_waiting_file(self._server):
                    break
                if self._next < self._end:
                    length = self._policy.segment_size
                    if is_last and self._speed >= self._policy.sufficient_speed:
                        length = max(length, min(_MAX_REQUEST_SIZE, int(self._speed / 2)))
                    start, self._next = self._next, min(self._end, self._next + length)
                    return _Segment(start, self._next)
                if is_last or self._has_idle_worker:
                    break
                self._has_idle_worker = True
                self._changed.wait()
                self._has_idle_worker = False
            self._end_worker()
            return None

    def _return_to_others(self, segment: _Segment) -> bool:
        with self._changed:
            if self._workers == 1:
                return False
            self._may_open_more = False
            self._returned.append(segment)
            self._end_worker()
            return True

    def _end_worker(self) -> None:
        self._workers -= 1
        self._changed.notify_all()

    def _measure(self, count: int, seconds: float, *, is_last: bool) -> None:
        """Measure the connections, and open more of them if they are too slow.

        :param count: bytes that came.
        :param seconds: the time spent waiting for them, without their processing.
        :param is_last: whether these are all requested bytes.
        """
        speed = count / max(seconds, 1e-6)
        # A very short wait shows a fast connection only if all requested bytes came.
        is_fast = is_last and speed >= self._policy.sufficient_speed
        if seconds < self._policy.measuring_time and not is_fast:
            return
        self._speed = speed
        # Until no slot is free, or another thread measures enough.
        while self._speed < self._policy.sufficient_speed:
            with self._changed:
                is_worthwhile = (
                    self._may_open_more and self._next < self._end and not self._is_ended
                )
                slot = self._connections.take_another(self._server) if is_worthwhile else None
                if slot is None:
                    return
                self._workers += 1
            self._start_worker(slot)

    # --- requests -----------------------------------------------------------------------

    def _fetch(self, segment: _Segment) -> None:
        failures = 0
        while segment.position < segment.stop:
            before = segment.position
            try:
                self._request(segment)
            except Interrupted as interrupted:
                if self._is_ended:
                    return
                failures = 1 if segment.position > before else failures + 1
                self._client.wait_after(failures, interrupted, self._file.url)

    def _request(self, segment: _Segment) -> None:
        byte_range = Span(segment.position, segment.stop)
        headers = _headers(byte_range, self.validator)
        try:
            with (
                self._client.stream(self._file.url, headers=headers) as (response, _),
                self._registered(response),
            ):
                extent = self._extent(byte_range, response)
                if (extent.total, extent.validator) != (self.source.size, self.validator):
                    raise UnusableDownload("the file changed on the server while it was read")
                self._receive(response, segment)
        except RangeUnsupported as unsupported:
            raise UnusableDownload(unsupported.reason) from unsupported
        except UnexpectedStatus as unexpected:
            refuses = unexpected.status in RETRY_STATUSES or unexpected.status == 403
            raise (_Refused if refuses else UnusableDownload)(unexpected.message) from unexpected

    def _extent(self, byte_range: Range, response: Response) -> Extent:
        return announced_extent(byte_range, response.status, response.headers, where=self._where)

    @contextmanager
    def _registered(self, response: Response) -> Iterator[None]:
        """Register an answer, so that it can be cancelled while it is read."""
        with self._changed:
            if self._is_ended:
                raise _Ended
            self._responses.add(response)
        try:
            yield
        finally:
            with self._changed:
                self._responses.remove(response)

    def _receive(self, response: Response, segment: _Segment) -> None:
        count, waited, since = 0, 0.0, self._policy.clock()
        for chunk in response.chunks():
            waited += self._policy.clock() - since
            if len(chunk) > segment.stop - segment.position:
                raise UnusableDownload("the server sends more bytes than it announced")
            self.source.write_at(segment.position, chunk)
            segment.position += len(chunk)
            self._budget.spend(len(chunk), self._where)
            self._progress.advance(len(chunk))
            count += len(chunk)
            self._measure(count, waited, is_last=segment.position == segment.stop)
            self._hash(segment.position - len(chunk), chunk)
            since = self._policy.clock()
        if segment.position < segment.stop:
            raise Interrupted("the answer broke off before its end")


def start_thread(
    work: Callable[[], None], fail: Callable[[BaseException], None], name: str
) -> threading.Thread:
    """Start a thread, whose error is passed to a function.

    It is a daemon, so that the program can end while a server sends nothing.
    """

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            fail(error)

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread


def _headers(byte_range: Range, validator: str) -> dict[str, str]:
    headers = {"Range": byte_range.header}
    if validator:
        headers["If-Range"] = validator
    return headers
