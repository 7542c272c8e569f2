"""One download: verified and read while it runs, resumed where it broke off.

A large file is fetched in segments (`wheelfit.sources.segmented_download`) if the server supports
byte ranges and a hash was promised, which proves that the segments form the file. Otherwise, and if
the segments do not fit together, it is one stream from the first byte to the last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from wheelfit.sources.arriving_file import ArrivingFile
from wheelfit.sources.body import announced_size
from wheelfit.sources.client import Client, unexpected
from wheelfit.sources.download_limits import ConnectionLimits, DownloadBudget
from wheelfit.sources.hash_check import HashCheck
from wheelfit.sources.segmented_download import (
    MIN_SIZE,
    SegmentedDownload,
    SegmentPolicy,
    UnusableDownload,
)
from wheelfit.sources.transport import Interrupted, Response
from wheelfit.sources.urls import origin, redact
from wheelfit.wheels.atomic_write import write_all
from wheelfit.wheels.remote import RangeUnsupported
from wheelfit_runtime.errors import HashMismatch, InvalidWheel, UnexpectedStatus
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress
    from wheelfit.wheels.bytes_source import ByteSource


_T = TypeVar("_T")
_CONTENT_RANGE = pattern(r"bytes (\d{1,18})-\d+/(\d+|\*)", re.ASCII)
_DEFAULT_POLICY = SegmentPolicy()


class _LargeFileAnnounced(Exception):
    """Raised when the server announces a file that is worth fetching in segments."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Download:
    """The download of one file."""

    def __init__(
        self,
        client: Client,
        file: File,
        progress: Progress,
        budget: DownloadBudget | None = None,
        connections: ConnectionLimits | None = None,
        *,
        may_use_ranges: bool = True,
        policy: SegmentPolicy = _DEFAULT_POLICY,
    ) -> None:
        self._client = client
        self._file = file
        self._budget = budget or DownloadBudget()
        self._connections = connections or ConnectionLimits()
        self._policy = policy
        self._where = redact(file.url)
        # Whether bytes of two requests were joined without a validator.
        self._is_unchecked = False
        self._has_restarted = False
        self._progress = progress
        self._validator = ""
        self._check = self._new_check()
        self.lacks_ranges = not may_use_ranges
        """Whether the server is known not to support byte ranges."""
        self._may_use_ranges = may_use_ranges and bool(file.hashes)

    def read_with(
        self, use: Callable[[ByteSource, Callable[[], None]], _T], target: BinaryIO
    ) -> _T:
        """Write the file, completely and verified, and read it, possibly while it arrives.

        :param use: reads the file. Before it uses what it has read, it calls its second argument,
            which waits until the whole file has arrived and is verified. After an error it may be
            called a second time; then the first result is discarded.
        :param target: an empty file, open for writing and reading; after an error its content
            is undefined.
        :raises HashMismatch: a promised hash does not match.
        :raises IntegrityError: it is longer or shorter than promised.
        :raises Unreachable: it broke off repeatedly.
        :raises UnexpectedStatus: the server answered with another status.
        :raises TooLarge: it exceeds the limit.
        :raises OSError: it cannot be written.
        """
        self._budget.check(self._file.size, self._where)
        with self._connections.take(origin(self._file.url)) as slot:
            segmented = self._begin_segmented(target, self._file.size)
            if segmented is None:
                try:
                    self._stream(target)
                except _LargeFileAnnounced as large:
                    segmented = self._begin_segmented(target, large.size)
                    if segmented is None:
                        self._stream(target)
            if segmented is not None:
                segmented.start(slot)
                try:
                    return self._read_segmented(segmented, use)
                except UnusableDownload:
                    self._may_use_ranges = False
        if segmented is not None:
            with self._connections.take(origin(self._file.url)):
                self._stream(target)
        return use(ArrivingFile.complete(target), lambda: None)

    # --- in segments --------------------------------------------------------------------

    def _begin_segmented(self, target: BinaryIO, size: int | None) -> SegmentedDownload | None:
        """Begin to fetch the file in segments; None: that is not worthwhile or not possible."""
        if not self._may_use_ranges or size is None or size < MIN_SIZE:
            return None
        self._may_use_ranges = False
        try:
            return SegmentedDownload(
                self._client,
                self._file,
                size,
                target,
                progress=self._progress,
                budget=self._budget,
                connections=self._connections,
                policy=self._policy,
            )
        except RangeUnsupported:
            self.lacks_ranges = True
        except (UnusableDownload, Interrupted, UnexpectedStatus):
            pass  # a plain request reports the same error, unless ranges caused it
        return None

    def _read_segmented(
        self, segmented: SegmentedDownload, use: Callable[[ByteSource, Callable[[], None]], _T]
    ) -> _T:
        try:
            return use(segmented.source, segmented.finish)
        except BaseException as error:
            transfer_error = segmented.cancel()
            if transfer_error is not None:  # the cause of the reader's error
                raise transfer_error from None
            if isinstance(error, InvalidWheel) and not segmented.has_strong_validator:
                raise UnusableDownload("the segments do not form a valid wheel") from None
            raise

    # --- in one stream ------------------------------------------------------------------

    def _stream(self, target: BinaryIO) -> None:
        failures = 0
        while True:
            count_before = self._check.count
            try:
                self._attempt(target)
                self._check.finish()
                break
            except HashMismatch:
                if not self._is_unchecked or self._has_restarted:
                    raise
                # The file may have changed between two requests: once more, from the start.
                self._has_restarted = True
                self._check = self._new_check()
            except Interrupted as interrupted:
                failures = 1 if self._check.count > count_before else failures + 1
                self._client.wait_after(failures, interrupted, self._file.url)
        self._progress.done()

    def _attempt(self, target: BinaryIO) -> None:
        headers = {}
        if self._check.count and (self._validator or self._file.hashes):
            headers["Range"] = f"bytes={self._check.count}-"
            if self._validator:
                headers["If-Range"] = self._validator
            else:
                self._is_unchecked = True
        with self._client.stream(self._file.url, headers=headers) as (response, where):
            if not self._continues(response):
                if response.status == 416:
                    if self._has_restarted:  # the server announces more bytes than it sends
                        raise unexpected(response.status, where)
                    self._has_restarted = True
                    self._start_over(target, response)
                    raise Interrupted("the server has no bytes after those already received")
                if response.status != 200:
                    raise unexpected(response.status, where)
                self._start_over(target, response)
            for chunk in response.chunks():
                if not self._check.count:
                    self._check_encoding(response, chunk)
                self._check.update(chunk)
                self._budget.spend(len(chunk), self._where)
                write_all(target, chunk)
                self._progress.advance(len(chunk))

    def _continues(self, response: Response) -> bool:
        """Return whether a response continues the bytes that have arrived."""
        if response.status != 206:
            return False
        match = _CONTENT_RANGE.match(response.headers.get("content-range", ""))
        # Another offset than requested would put bytes in the wrong place.
        return match is not None and int(match[1]) == self._check.count > 0

    def _start_over(self, target: BinaryIO, response: Response) -> None:
        target.seek(0)
        target.truncate()
        self._is_unchecked = False
        self._check = self._new_check()
        etag = response.headers.get("etag", "")
        strong_etag = "" if etag.startswith("W/") else etag
        self._validator = strong_etag or response.headers.get("last-modified", "")
        size = announced_size(response)
        if size is not None:
            self._budget.check(size, self._where)
            supports_ranges = response.headers.get("accept-ranges", "").lower() != "none"
            if self._may_use_ranges and supports_ranges and size >= MIN_SIZE:
                raise _LargeFileAnnounced(size)
        self._progress.start(size if size is not None else self._file.size)

    def _check_encoding(self, response: Response, first: bytes) -> None:
        """Raise an error for an unrequested encoding; some servers only claim to use one."""
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        # Web servers send source distributions (.tar.gz) as they are, but often with "x-gzip".
        is_gzip = self._file.filename.endswith((".gz", ".tgz"))
        if encoding not in {"", "identity"} and not first.startswith(
            b"\x1f\x8b" if is_gzip else b"PK"
        ):
            raise UnexpectedStatus(
                f"the server sends the file encoded as {encoding!r}, which was not requested",
                status=response.status,
                where=self._where,
                hint="a proxy on the way may encode it; use another index or connection",
            )

    def _new_check(self) -> HashCheck:
        return HashCheck(self._file.hashes, self._file.size, where=self._where)
