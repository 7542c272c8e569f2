"""Assemble a remote wheel from a cached sibling and the few bytes in which they differ.

A sibling is another wheel of the same project: another variant of a release, the wheel for another
Python, sometimes another version. The directory of the remote wheel shows the parts that both share
(`wheelfit.wheels.delta`); only the rest is fetched. The result is used only if it has the promised
hash. After any problem the caller downloads the whole wheel (`UnusableDownload`).
"""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Self

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.arriving_file import ArrivingFile
from wheelfit.sources.hash_check import HashCheck
from wheelfit.sources.segmented_download import UnusableDownload, start_thread
from wheelfit.sources.urls import redact
from wheelfit.wheels.bytes_source import ByteSource, open_local
from wheelfit.wheels.delta import (
    RebuiltWheel,
    directory_from_tail,
    make_plan,
    read_directory,
    shared_bytes,
)
from wheelfit.wheels.remote import Range, RemotePart, Span, Suffix
from wheelfit.wheels.unpacked import TREE
from wheelfit.wheels.unpacking import VerifiedFile
from wheelfit.wheels.zip_directory import Member, find_end
from wheelfit_runtime.errors import InvalidWheel, NetworkError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from packaging.utils import NormalizedName

    from wheelfit.sources.client import Client
    from wheelfit.sources.download_limits import DownloadBudget
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.wheel_store import Sibling
    from wheelfit.wheels.delta import Directory, RebuildPiece, RebuildPlan
    from wheelfit.wheels.record import RecordRow


_MIN_SIZE = 4 << 20  # bytes of a wheel
_MIN_GAIN = 0.25  # share of the bytes; for less, a plain download is better
_MAX_REQUESTS = 200
_MAX_SIBLINGS = 4  # reading the directory of one takes a tenth of a second at most
_MAX_GAP = 64 << 10
_REQUEST_SIZE = 4 << 20  # bytes requested at a time, which are in memory
_CONNECTIONS = 4
_MIN_TAIL_SIZE, _MAX_TAIL_SIZE = 8 << 10, 8 << 20
_TAIL_MARGIN = 4 << 10
_MAX_DIRECTORY_SIZE = 256 << 20
_BLOCK = 1 << 20  # with smaller blocks, threads wait for each other longer than they work
_MIN_SHARE_TO_KEEP = 0.1  # of fetched bytes; with fewer, a wheel is assembled again when needed
_NEARLY_ALL = 0.95
_MISSING_FILE = ("", -1, 0)  # hash, size and time that no file has


def begin_delta_download(
    client: Client,
    file: File,
    siblings_of: Callable[[NormalizedName, int], Iterable[Sibling]],
    target: BinaryIO,
    *,
    budget: DownloadBudget,
    progress: Progress,
) -> DeltaDownload | None:
    """Find the sibling that shares most with a wheel, and begin to assemble the wheel.

    :param siblings_of: takes a project and a size, and yields the cached wheels of the project with
        archives of at least that many bytes, newest first; only a few are examined.
    :param target: an empty file without a buffer, open for writing and reading.
    :return: None if nothing is gained, or there is no sibling.
    :raises RangeUnsupported: the server does not support ranges.
    :raises TooLarge: the limits do not allow the bytes to fetch.
    """
    if "sha256" not in file.hashes or file.size is None or file.size < _MIN_SIZE:
        return None
    filename = parse_wheel_filename(file.filename)
    siblings = [*siblings_of(filename.name, int(_MIN_GAIN * file.size))]
    # Variants of the same release first.
    siblings.sort(key=lambda sibling: sibling.wheel.filename.version != filename.version)
    with _OpenSiblings(siblings[:_MAX_SIBLINGS]) as candidates:
        try:
            first = next(candidates, None)
            if first is None:
                return None
            with _EarlyHash(file, first.source) as early_hash:
                remote = _RemoteWheel(client, file, _probable_tail_size(first.directory))
                best = _best(remote.directory, first, candidates)
                plan = make_plan(remote.directory, best.directory, best.source, max_gap=_MAX_GAP)
        except (OSError, InvalidWheel, NetworkError, UnusableDownload):
            return None  # a fault of the wheel itself is found by the download
        size = remote.directory.size
        if plan.missing_bytes > (1 - _MIN_GAIN) * size or len(plan.missing) > _MAX_REQUESTS:
            return None
        budget.check(plan.missing_bytes, remote.where)
        progress.start(plan.missing_bytes + remote.fetched)
        progress.set_full_size(size)
        progress.advance(remote.fetched)
        check = early_hash.check_for(plan) if best is first else _new_check(file)
        source = candidates.keep(best)
        return DeltaDownload(remote, plan, best.sibling, source, target, check, budget, progress)


def _new_check(file: File) -> HashCheck:
    """Return the check of a whole wheel against its promised hashes and size."""
    return HashCheck(file.hashes, file.size, where=redact(file.url))


class _EarlyHash:
    """The hash of a sibling's beginning, computed while waiting for the server.

    Hashing takes most of the time of a delta download, and most wheels begin like their sibling.
    """

    def __init__(self, file: File, source: ByteSource) -> None:
        self._file = file
        self._source = source
        self._check = _new_check(file)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._hash, name="delta-hash", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def check_for(self, plan: RebuildPlan) -> HashCheck:
        """Return this check if the wheel begins like the sibling, else a new one."""
        first = plan.pieces[0]
        is_prefix = first.origin == 0 and self._check.count <= first.stop
        return self._check if is_prefix else _new_check(self._file)

    def _hash(self) -> None:
        most = min(self._source.size, self._file.size or 0)
        with suppress(OSError):  # reading the sibling will fail again, and report it
            while not self._ended.is_set() and self._check.count < most:
                length = min(_BLOCK, most - self._check.count)
                block = self._source.read_at(self._check.count, length)
                if not block:
                    return
                self._check.update(block)


@dataclass(frozen=True, slots=True)
class _OpenSibling:
    """A sibling, open for reading."""

    sibling: Sibling
    source: ByteSource
    directory: Directory


class _OpenSiblings:
    """An iterator that opens siblings; at the end, all are closed except those of `keep`."""

    def __init__(self, siblings: Iterable[Sibling]) -> None:
        self._siblings = iter(siblings)
        self._opened: list[ByteSource] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for source in self._opened:
            source.close()

    def __iter__(self) -> Iterator[_OpenSibling]:
        return self

    def __next__(self) -> _OpenSibling:
        while True:
            sibling = next(self._siblings)
            # A sibling that cannot be read is skipped.
            with suppress(OSError, InvalidWheel):
                self._opened.append(open_local(sibling.archive))
                source = self._opened[-1]
                directory = read_directory(source, where=str(sibling.archive))
                return _OpenSibling(sibling, source, directory)

    def keep(self, candidate: _OpenSibling) -> ByteSource:
        """Return the bytes of a candidate, which are not closed here."""
        self._opened.remove(candidate.source)
        return candidate.source


def _best(
    directory: Directory, first: _OpenSibling, others: Iterable[_OpenSibling]
) -> _OpenSibling:
    """Return the sibling that shares most; if the first shares nearly all, no other is opened."""
    best, most_shared = first, shared_bytes(directory, first.directory)
    for other in others if most_shared < _NEARLY_ALL * directory.size else ():
        if (shared := shared_bytes(directory, other.directory)) > most_shared:
            best, most_shared = other, shared
    return best


class DeltaDownload:
    """The assembly of a wheel while it is read; leaving the context ends it.

    An ``InvalidWheel`` from the block is raised only if the wheel was assembled correctly;
    otherwise `UnusableDownload` is.

    :param base: the bytes of the sibling; closed in the end.
    :param target: an empty file without a buffer, open for writing and reading.
    :param check: the hash of the wheel so far.
    """

    def __init__(
        self,
        remote: _RemoteWheel,
        plan: RebuildPlan,
        sibling: Sibling,
        base: ByteSource,
        target: BinaryIO,
        check: HashCheck,
        budget: DownloadBudget,
        progress: Progress,
    ) -> None:
        self._check = check
        self._remote = remote
        self._plan = plan
        self._base = base
        self._target = target
        self._budget = budget
        self._progress = progress
        self._arriving = ArrivingFile(target, remote.directory.size)
        self.filename = remote.file.filename
        """Name of the wheel."""
        self.source: ByteSource = RebuiltWheel(plan, base, self._arriving)
        """The wheel; it may be read from now on."""
        self.keeps_archive = plan.missing_bytes > _MIN_SHARE_TO_KEEP * remote.directory.size
        """Whether all bytes are written to the target, so that the archive can be cached."""
        self._tree = str(sibling.wheel.folder / TREE) + os.sep
        table = sibling.wheel.files
        columns = zip(table.hashes, table.sizes, table.times, strict=True)
        self._files = dict(zip(table.names, columns, strict=True))
        self._ended = threading.Event()
        self._error: BaseException | None = None
        functions = [self._fetch, self._hash, *([self._copy] if self.keeps_archive else [])]
        self._threads = [
            start_thread(function, self._fail, "delta-download") for function in functions
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, InvalidWheel):
            self.finish()
        else:
            self.cancel()

    # --- for the reader ---------------------------------------------------------------

    def find_verified(self, member: Member, row: RecordRow) -> VerifiedFile | None:
        """Return the unpacked file of the sibling that has the content of a member, or None.

        The packed bytes of both are equal, and so are their rows in RECORD.
        """
        origin = self._plan.origins.get(member.name)
        if origin is None:
            return None
        digest, size, written = self._files.get(origin.name, _MISSING_FILE)
        if (digest, size) != (row.hash, member.size):
            return None
        return VerifiedFile(f"{self._tree}{origin.name}", written, origin.is_whole)

    def finish(self) -> None:
        """Wait until the wheel is complete and verified.

        :raises UnusableDownload: its hash is wrong, or it cannot be assembled.
        """
        self._end()
        if self._error is not None:
            raise UnusableDownload(_reason(self._error)) from self._error
        self._progress.done()

    def cancel(self) -> None:
        """Cancel the assembly if it is running, and wait until reading and writing have stopped."""
        self._ended.set()
        self._arriving.fail(UnusableDownload("it was cancelled"))
        self._end()

    def _end(self) -> None:
        for thread in self._threads:
            thread.join()
        self._base.close()

    # --- threads ----------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._ended.set()
        self._arriving.fail(UnusableDownload(_reason(error)))

    def _fetch(self) -> None:
        spans = [
            Span(start, min(start + _REQUEST_SIZE, piece.stop))
            for piece in self._plan.missing
            for start in range(piece.start, piece.stop, _REQUEST_SIZE)
        ]
        with ThreadPoolExecutor(_CONNECTIONS, "delta-download") as pool:
            for future in [pool.submit(self._fetch_span, span) for span in spans]:
                future.result()

    def _fetch_span(self, span: Span) -> None:
        if self._ended.is_set():
            return
        try:
            data = self._remote.fetch(span).data
            self._arriving.write_at(span.start, data)
            self._budget.spend(len(data), self._remote.where)
            self._progress.advance(len(data))
        except BaseException as error:
            self._fail(error)  # before `_fetch` gets it, so that the other requests stop
            raise

    def _hash(self) -> None:
        check = self._check
        while check.count < self.source.size:
            if self._ended.is_set():
                return
            block = self.source.read_at(check.count, _BLOCK)
            if not block:
                raise UnusableDownload("the cached wheel is truncated")
            check.update(block)
        check.finish()

    def _copy(self) -> None:
        for piece in self._plan.pieces:
            if piece.data is not None:
                self._arriving.write_at(piece.start, piece.data)
            elif piece.origin is not None:
                self._copy_piece(piece, piece.origin)

    def _copy_piece(self, piece: RebuildPiece, origin: int) -> None:
        start = piece.start + self._copy_by_kernel(piece, origin)
        for position in range(start, piece.stop, _BLOCK):
            if self._ended.is_set():
                return
            length = min(_BLOCK, piece.stop - position)
            data = self._base.read_at(origin + position - piece.start, length)
            self._arriving.write_at(position, data)

    def _copy_by_kernel(self, piece: RebuildPiece, origin: int) -> int:
        """Copy a piece in the kernel as far as it can; return the count of bytes copied."""
        copied, length = 0, piece.stop - piece.start
        fileno = getattr(self._base, "fileno", None)
        if sys.platform != "linux" or fileno is None:
            return 0
        with suppress(OSError):  # the kernel may refuse it between different file systems
            while copied < length and not self._ended.is_set():
                count = os.copy_file_range(
                    fileno(),
                    self._target.fileno(),
                    min(length - copied, 64 << 20),
                    origin + copied,
                    piece.start + copied,
                )
                if not count:
                    break
                copied += count
        return copied


class _RemoteWheel:
    """A remote wheel, read in parts that all belong to one version of the file."""

    def __init__(self, client: Client, file: File, tail_size: int) -> None:
        self._client = client
        self._validator: str | None = None
        self.file = file
        self.where = redact(file.url)
        self.fetched = 0
        self.directory = self._read_directory(tail_size)

    def fetch(self, byte_range: Range) -> RemotePart:
        """Fetch a part.

        :raises UnusableDownload: the file has changed on the server.
        """
        part = self._client.get_range(self.file.url, byte_range)
        extent = part.extent
        if self._validator is None:
            self._validator = extent.validator
        is_same = extent.total == self.file.size and extent.validator == self._validator
        if not is_same or len(part.data) != extent.stop - extent.start:
            raise UnusableDownload("the file changed on the server while it was read")
        return part

    def _read_directory(self, tail_length: int) -> Directory:
        part = self.fetch(Suffix(tail_length))
        tail, start = part.data, part.extent.start
        size = part.extent.total
        end = find_end(tail, size, where=self.where)
        if end.size > _MAX_DIRECTORY_SIZE:
            raise InvalidWheel(f"the central directory has {end.size} bytes", where=self.where)
        if end.offset < start:
            tail, start = self.fetch(Span(end.offset, start)).data + tail, end.offset
        self.fetched = len(tail)
        return directory_from_tail(tail, size, where=self.where)


def _probable_tail_size(sibling: Directory) -> int:
    """Return the probable size of directory and dist-info at the end.

    In most wheels dist-info comes last, and it always differs.
    """
    first = sibling.end.offset
    for entry in reversed(sibling.entries):
        if not entry.name.partition(b"/")[0].endswith(b".dist-info"):
            break
        first = entry.start
    length = sibling.size - first + _TAIL_MARGIN
    return min(max(length, _MIN_TAIL_SIZE), _MAX_TAIL_SIZE)


def _reason(error: BaseException) -> str:
    if isinstance(error, UnusableDownload):
        return error.reason
    if isinstance(error, WheelfitError):
        return error.message
    return str(error) or type(error).__name__
