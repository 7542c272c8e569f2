"""Pull-through transfers: to clients at once, and into the storage after verification.

Each file is fetched by a thread of its own, once for all clients, so that no client waits for a
slower one, and none stops the transfer by disconnecting. Clients get the received bytes at once,
except for the end, which is withheld until every listed hash is verified: a wrong file is never
complete.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from wheelfit.server.messages import FilePart
from wheelfit.sources.client import Client, unexpected
from wheelfit.sources.hash_check import HashCheck
from wheelfit.sources.transport import Interrupted, Response
from wheelfit.sources.urls import redact
from wheelfit.wheels.remote import RangeUnsupported, Span, announced_extent
from wheelfit_runtime.errors import (
    HashMismatch,
    NetworkError,
    UnexpectedStatus,
    Unreachable,
    WheelfitError,
)
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator
    from pathlib import Path

    from wheelfit.server.store.blobs import Draft
    from wheelfit.server.upstream.pulled_files import PulledFiles
    from wheelfit.sources.page import File


_WITHHELD = 1 << 16
"""Bytes that no client gets before the file is verified."""
_ABANDONED_TIMEOUT = 30.0
"""Seconds for which a transfer continues without readers, since clients try again."""
_MIN_RATE = 1024
"""Bytes a second below which a transfer is aborted, after a minute."""
_SLOW_AFTER = 60.0
_READER_TIMEOUT = 300.0
"""Seconds that a reader waits for the next bytes; the transfer times out earlier."""
_MAX_PULLS = 16
"""Files that are fetched at once."""
_READER_POLL = 0.02
"""Seconds after which a waiting reader yields, so that the thread can do other work."""
_STORE_TIMEOUT = 3600.0
"""Seconds that a remote storage may take for a large file."""
_DRAIN_TIMEOUT = 600.0
"""Seconds in which readers may finish a file that cannot be stored."""
_READER_PAUSE = 1.0
"""Seconds between the moment when a reader learns the size and its first read; a slower reader of
a file that cannot be stored gets an error."""


class Pull:
    """The transfer of one file, in a thread of its own.

    :param max_size: bytes of the largest file that may be fetched.
    :param on_bytes: called with the number of bytes received since the last call.
    :param on_verified: called with digest and size once the file is verified, before its end is
        sent to any client.
    :param on_end: called when the thread ends, with the error if there was one.
    """

    def __init__(
        self,
        client: Client,
        file: File,
        pulled: PulledFiles,
        *,
        max_size: int,
        on_bytes: Callable[[int], None],
        on_verified: Callable[[str, int], None],
        on_end: Callable[[Pull, WheelfitError | None], None],
    ) -> None:
        self.file = file
        self._client = client
        self._pulled = pulled
        self._max_size = max_size
        self._on_bytes = on_bytes
        self._on_verified = on_verified
        self._on_end = on_end
        self._changed = threading.Condition()
        self._path: Path | None = None
        """The file with the bytes so far, until it is stored."""
        self._written = 0
        self._is_verified = False
        self._is_stored = False
        self._error: WheelfitError | None = None
        self._readers = 0
        self._last_read = time.monotonic()
        self._is_stopped = False
        self.size: int | None = file.size
        """Size of the file, once known."""
        self.sha256: str | None = None
        """Digest of the file, once it is verified."""
        self._has_response = False
        """Whether a response has announced the size, or that it is unknown."""
        self._started = 0.0
        self._validator: str | None = None

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="pull", daemon=True).start()

    def stop(self) -> None:
        """Stop the transfer."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    # --- readers ----------------------------------------------------------------------

    def wait_for_size(self) -> int:
        """Return the size of the file; wait for the whole file if that is unknown or small.

        :raises WheelfitError: the file cannot be fetched.
        """
        with self._reading(), self._changed:
            if not self._wait(
                lambda: self._is_verified or (self._has_response and (self.size or 0) > _WITHHELD),
                _READER_TIMEOUT,
            ):
                raise self._timeout_error()
            assert self.size is not None  # noqa: S101 - known once it is verified
            return self.size

    def parts(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes between two positions as they are received.

        A range of the file is yielded only once the whole file is verified, since withholding the
        end of the file would not protect its reader. An empty piece is yielded when nothing was
        received for a moment, so that the caller can use the thread for other requests.

        :raises WheelfitError: the rest cannot be fetched.
        """
        is_whole = start == 0 and stop == self.size
        waiting_since = time.monotonic()
        with self._reading():
            while start < stop:
                with self._changed:
                    is_ready = partial(self._can_read, start, is_whole=is_whole)
                    if self._wait(is_ready, _READER_POLL):
                        readable_end = stop if self._is_verified else self._readable_size
                        waiting_since = time.monotonic()
                    elif time.monotonic() - waiting_since < _READER_TIMEOUT:
                        readable_end = start
                    else:
                        raise self._timeout_error()
                    path, is_stored = self._path, self._is_stored
                if readable_end == start:
                    yield b""
                    continue
                if is_stored:
                    assert self.sha256 is not None  # noqa: S101 - it was verified before
                    yield from self._pulled.parts(self.sha256, start, stop)
                    return
                assert path is not None  # noqa: S101 - something was written
                with suppress(FileNotFoundError):  # it was stored meanwhile, or the transfer failed
                    for piece in FilePart(path, start, readable_end):
                        start += len(piece)
                        yield piece

    def wait_until_stored(self) -> None:
        """Wait until the storage has the completely received file.

        :raises WheelfitError: the file cannot be fetched or stored.
        """
        with self._changed:
            if not self._wait(lambda: self._is_stored, _STORE_TIMEOUT):
                raise self._timeout_error()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._changed:
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._last_read = time.monotonic()
                self._changed.notify_all()

    def _can_read(self, start: int, *, is_whole: bool) -> bool:
        return self._is_verified or (is_whole and self._readable_size > start)

    @property
    def _readable_size(self) -> int:
        return self._written - _WITHHELD

    def _wait(self, is_ready: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition, and return whether it is met; the caller has the lock."""
        is_met = self._changed.wait_for(lambda: is_ready() or self._error is not None, seconds)
        if self._error is not None:
            raise self._error
        return is_met

    def _timeout_error(self) -> Unreachable:
        return Unreachable(
            f"{self.file.filename} did not arrive in time", where=redact(self.file.url)
        )

    # --- the thread -------------------------------------------------------------------

    def _run(self) -> None:
        error: WheelfitError | None = None
        try:
            with self._pulled.blobs.draft() as draft:
                with self._changed:
                    self._path = draft.path
                self._fetch(draft)
                self._store(draft)
        except WheelfitError as caught:
            error = caught
        except Exception as caught:  # noqa: BLE001 - every error must reach the readers
            error = NetworkError(f"{self.file.filename} cannot be fetched: {caught!r}")
        with self._changed:
            self._error = error
            self._changed.notify_all()
        self._on_end(self, error)

    def _fetch(self, draft: Draft) -> None:
        """Fetch the whole file, and verify it."""
        file, where = self.file, redact(self.file.url)
        listed_sha256 = file.hashes.get("sha256")
        # The draft computes SHA-256 already; computing it twice would be slower than the network.
        check = HashCheck({} if listed_sha256 else file.hashes, file.size, where=where)
        attempt = 0
        self._started = time.monotonic()
        while True:
            size_before = draft.size
            try:
                with self._client.stream(file.url, headers=self._resuming(draft)) as response:
                    self._receive(*response, draft, check)
                break
            except Interrupted as interrupted:
                attempt = attempt + 1 if draft.size == size_before else 1
                self._client.wait_after(attempt, interrupted, file.url)
        if self.size is not None and draft.size != self.size:
            raise Unreachable(f"{file.filename} ended too early", where=where)
        check.finish()
        if listed_sha256 not in (None, draft.sha256):
            raise HashMismatch(
                algorithm="sha256", expected=[listed_sha256], actual=draft.sha256, where=where
            )

    def _resuming(self, draft: Draft) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity"}
        if draft.size and self.size is not None:
            headers["Range"] = Span(draft.size, self.size).header
        return headers

    def _receive(self, response: Response, where: str, draft: Draft, check: HashCheck) -> None:
        """Write the body of a response."""
        redacted = redact(where)
        bytes_to_skip = 0
        if draft.size and self.size is not None and response.status == 206:
            span = Span(draft.size, self.size)
            try:
                extent = announced_extent(span, 206, response.headers, where=redacted)
            except RangeUnsupported as unsupported:
                raise UnexpectedStatus(unsupported.reason, status=206, where=redacted) from None
            if extent.total != self.size:
                raise UnexpectedStatus("the file changed meanwhile", status=206, where=redacted)
        elif response.status == 200:
            # The received part is sent again; the hash shows differences.
            bytes_to_skip = draft.size
            self._record_length(response, redacted)
        else:
            raise unexpected(response.status, where)
        self._check_same_file(response, redacted)
        for chunk in response.chunks():
            data = chunk[bytes_to_skip:]
            bytes_to_skip -= len(chunk) - len(data)
            if not data:
                continue
            if draft.size + len(data) > self._max_size:
                raise self._too_large(redacted)
            check.update(data)
            draft.write(data)
            self._on_bytes(len(data))
            with self._changed:
                self._written = draft.size
                self._changed.notify_all()
                self._check_progress(redacted)

    def _check_same_file(self, response: Response, where: str) -> None:
        """Check that a later response has the same file, if there is no hash to compare."""
        headers = response.headers
        validator = headers.get("etag") or headers.get("last-modified") or ""
        if self._validator is None:
            self._validator = validator
        elif not self.file.hashes and (not validator or validator != self._validator):
            raise Unreachable(
                "the transfer broke, and the file may have changed since",
                where=where,
            )

    def _record_length(self, response: Response, where: str) -> None:
        """Record the announced length of a whole response, unless the file cannot have it."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise UnexpectedStatus(
                "the file has a content encoding that was not requested", status=200, where=where
            )
        text = response.headers.get("content-length", "")
        announced = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
        if (announced or self.file.size or 0) > self._max_size:
            raise self._too_large(where)
        if announced is not None and self.file.size not in (None, announced):
            size = count_of(announced, "byte")
            raise UnexpectedStatus(
                f"the file has {size}, and its entry on the page {self.file.size}",
                status=200,
                where=where,
            )
        with self._changed:
            if self.size not in (None, announced) and announced is not None:
                raise UnexpectedStatus("the file changed meanwhile", status=200, where=where)
            self.size = self.size if announced is None else announced
            self._has_response = True
            self._changed.notify_all()

    def _too_large(self, where: str) -> UnexpectedStatus:
        return UnexpectedStatus(
            f"the file is larger than the {self._max_size} bytes that are fetched",
            status=200,
            where=where,
        )

    def _check_progress(self, where: str) -> None:
        """Raise an error for a stopped, abandoned or slow transfer; the caller has the lock."""
        now = time.monotonic()
        if self._is_stopped:
            raise Unreachable("the mirror is being closed", where=where)
        if not self._readers and now - self._last_read > _ABANDONED_TIMEOUT:
            raise Unreachable("no client waits for the file any more", where=where)
        elapsed = now - self._started
        if elapsed > _SLOW_AFTER and self._written < elapsed * _MIN_RATE:
            raise Unreachable("the file arrives too slowly", where=where)

    def _store(self, draft: Draft) -> None:
        """Store the verified file, all of which readers can get already."""
        with self._changed:
            self.size, self.sha256 = draft.size, draft.sha256
        self._on_verified(draft.sha256, draft.size)
        with self._changed:
            self._is_verified = True
            self._changed.notify_all()
        try:
            self._pulled.blobs.save(draft)
            with suppress(WheelfitError):  # the storage may exceed its limit for a while
                self._pulled.record_new(draft.sha256, draft.size)
        except WheelfitError:
            self._wait_for_readers()
            raise
        with self._changed:
            self._is_stored = True
            self._changed.notify_all()

    def _wait_for_readers(self) -> None:
        """Wait until all clients have the file, also those that know its size and begin to read."""
        deadline = time.monotonic() + _DRAIN_TIMEOUT
        with self._changed:
            while (now := time.monotonic()) < deadline:
                if not self._readers and now - self._last_read > _READER_PAUSE:
                    return
                self._changed.wait(_READER_PAUSE)


class Pulls:
    """The running pulls, each file once.

    :param queue_timeout: seconds to wait while too many files are being fetched.
    """

    def __init__(
        self, *, queue_timeout: float = 15.0, note: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._free = threading.BoundedSemaphore(_MAX_PULLS)
        self._queue_timeout = queue_timeout
        self._note = note
        self._running: dict[Hashable, Pull] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def get(
        self,
        key: Hashable,
        make: Callable[[Callable[[Pull, WheelfitError | None], None]], Pull],
    ) -> Pull:
        """Return the pull of a file, and start it if it is not running.

        :param key: identifies the content of the file.
        :param make: returns a new pull; its argument is the pull's ``on_end``.
        :raises Unreachable: too many files are being fetched.
        """
        with self._lock:
            running_pull = self._running.get(key)
        if running_pull is not None:
            return running_pull
        if not self._free.acquire(timeout=self._queue_timeout):
            raise Unreachable("too many downloads are running", hint="try again in a minute")
        with self._lock:
            running_pull = self._running.get(key)
            if running_pull is not None or self._is_closed:
                self._free.release()
                if running_pull is None:
                    raise Unreachable("the mirror is being closed")
                return running_pull
            pull = self._running[key] = make(lambda pull, error: self._remove(key, pull, error))
        pull.start()
        return pull

    def wait_for(self, filename: str) -> None:
        """Wait until a file that is being fetched is stored.

        :raises WheelfitError: it cannot be fetched or stored.
        """
        with self._lock:
            running_pulls = [
                pull for pull in self._running.values() if pull.file.filename == filename
            ]
        for pull in running_pulls:
            pull.wait_until_stored()

    def close(self) -> None:
        """Stop all transfers."""
        with self._lock:
            self._is_closed = True
            running_pulls = list(self._running.values())
        for pull in running_pulls:
            pull.stop()

    def _remove(self, key: Hashable, pull: Pull, error: WheelfitError | None) -> None:
        with self._lock:
            self._running.pop(key, None)
        self._free.release()
        if error is not None:
            self._note(f"{pull.file.filename} is not stored: {error.message}")
