"""Read files over HTTP: small ones whole, parts of wheels by ranges, wheels into a folder."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.body import announced_size
from wheelfit.sources.cache import Store, member_key, wheel_size_key
from wheelfit.sources.cached_pages import CachedPages, offline
from wheelfit.sources.client import unexpected
from wheelfit.sources.download_limits import ConnectionLimits, DownloadBudget
from wheelfit.sources.hash_check import check_bytes, check_file
from wheelfit.sources.local_files import (
    METADATA,
    VARIANT_DOCUMENT,
    link_or_copy,
    metadata_of,
    read_local_members,
    size_of_local,
)
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.repository import READ_LIMIT, FileSize, TooCostly
from wheelfit.sources.urls import Origin, origin, redact
from wheelfit.sources.wheel_store import WheelStore
from wheelfit_runtime.errors import (
    FileProblem,
    IntegrityError,
    NetworkError,
    UnexpectedStatus,
    os_reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from tempfile import TemporaryDirectory
    from typing import BinaryIO

    from wheelfit.sources.delta_download import DeltaDownload
    from wheelfit.sources.page import File
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.unpacked import UnpackedWheel
    from wheelfit.wheels.unpacking import FindVerified


_T = TypeVar("_T")
_Identity: TypeAlias = tuple[str, frozenset[tuple[str, str]]]
_NO_RANGES = "the server does not support byte ranges"


class RemoteFiles:
    """A reader of ``http:`` and ``https:`` files; the methods are those of ``Repository``.

    :param note: called with notes about files that differ from the index.
    :param max_download: bytes of whole wheels that may be fetched; None: no limit.
    :param wheels: keeps unpacked wheels; by default in the store.
    :param direct_urls: URLs of wheels that were requested by URL, without logins and hashes.
    :param fetches_direct_urls_whole: whether these are always fetched whole, even if only their
        metadata is needed.
    """

    def __init__(
        self,
        pages: CachedPages,
        store: Store,
        *,
        note: Callable[[str], None] = lambda _text: None,
        max_download: int | None = None,
        wheels: WheelStore | None = None,
        connections: ConnectionLimits | None = None,
        direct_urls: Iterable[str] = (),
        fetches_direct_urls_whole: bool = False,
    ) -> None:
        self._pages = pages
        self._client = pages.client
        self._store = store
        self._wheels = wheels or WheelStore(store, note=note)
        self._note = note
        self._budget = DownloadBudget(max_download)
        self._connections = connections or ConnectionLimits()
        self._without_ranges: set[Origin] = set()
        self._lock = threading.Lock()
        self._direct_urls = frozenset(direct_urls)
        self._fetches_direct_urls_whole = fetches_direct_urls_whole
        self._whole_wheels = _WholeWheels()

    def close(self) -> None:
        """Remove the fetched wheels that are not in the cache."""
        self._whole_wheels.close()

    # --- small files --------------------------------------------------------------

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        return self._read(file.url, file.hashes, file.size, limit)

    def _read(
        self,
        url: str,
        hashes: Mapping[str, str],
        size: int | None,
        limit: int = READ_LIMIT,
        *,
        keep: bool = True,
    ) -> bytes:
        sha256 = hashes.get("sha256")
        entry = self._store.read("files", sha256) if sha256 else None
        if entry is not None:
            # The entry is intact, and was checked against this hash when it was written.
            return entry.body
        # With a hash it is kept in the store below, not with the pages.
        answer = self._pages.get(url, limit=limit, keep=keep and not sha256)
        if answer.status != 200:
            raise unexpected(answer.status, answer.url)
        check_bytes(answer.body, hashes, size, where=redact(url))
        if sha256 and keep:
            self._store.write("files", sha256, {}, answer.body)
        return answer.body

    # --- parts of wheels ------------------------------------------------------------

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        known = self._known_member(file, METADATA)
        if known is not None:
            return known
        if file.metadata_hashes is not None:
            try:
                has_hash = "sha256" in file.hashes  # then `_remember` caches METADATA
                body = self._read(
                    _metadata_url(file.url), file.metadata_hashes, None, keep=not has_hash
                )
                self._remember(file, METADATA, body)
                return body
            except UnexpectedStatus as error:
                # Some proxies list metadata files that they do not have; the wheel has it.
                self._note(
                    f"{file.source} promises a metadata file for {file.filename}, "
                    f"but answered {error.status}"
                )
        try:
            members = self._members(file)
        except TooCostly:
            members = self._members_of_whole(file)
        return metadata_of(members, redact(file.url))

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a wheel, or None if it has none."""
        if not parse_wheel_filename(file.filename).is_variant:  # F-10
            return None
        known = self._known_member(file, VARIANT_DOCUMENT)
        return known if known is not None else self._members(file).get(VARIANT_DOCUMENT)

    def _known_member(self, file: File, name: str) -> bytes | None:
        """Return a member that was read before, or is in a cached wheel; None: unknown."""
        path = self._whole_wheels.find(file)
        sha256 = file.hashes.get("sha256")
        if path is None and sha256 is not None:
            entry = self._store.read("members", member_key(name, sha256, file.url))
            if entry is not None:
                return entry.body
            path = self._cached_wheel(file)
        return None if path is None else read_local_members(path, [name], file.filename).get(name)

    def _members(self, file: File) -> dict[str, bytes]:
        """Read the needed members of a wheel by ranges, and cache them.

        :raises TooCostly: the server does not support ranges.
        """
        if self._fetches_direct_urls_whole and file.url in self._direct_urls:
            return self._members_of_whole(file)
        from wheelfit.wheels.partial_archive import read_members
        from wheelfit.wheels.remote import RangeUnsupported

        filename = parse_wheel_filename(file.filename)
        # Both are adjacent, so the second one usually takes no further request. A plain wheel has
        # no document, and a search for it would take the whole directory.
        names = [METADATA, VARIANT_DOCUMENT] if filename.is_variant else [METADATA]
        try:
            with self._ranges_of(file) as source:
                members = read_members(source, names, filename=filename, where=redact(file.url))
        except RangeUnsupported as error:
            raise _too_costly(file, error.reason) from error
        for name, body in members.items():
            self._remember(file, name, body)
        return members

    def _members_of_whole(self, file: File) -> dict[str, bytes]:
        """Fetch a whole wheel, and read the needed members.

        A wheel requested by URL is fetched once, even if it has no hash and no cache keeps it.
        """
        fetch = partial(self.download, file)
        names = [METADATA, VARIANT_DOCUMENT]
        if file.url in self._direct_urls:
            return read_local_members(self._whole_wheels.get(file, fetch), names, file.filename)
        import tempfile

        with tempfile.TemporaryDirectory(prefix="wheelfit-") as folder:
            return read_local_members(fetch(Path(folder)), names, file.filename)

    def _remember(self, file: File, name: str, body: bytes) -> None:
        """Cache a member, since a file of one hash never changes."""
        sha256 = file.hashes.get("sha256")
        if sha256 is not None:
            self._store.write("members", member_key(name, sha256, file.url), {}, body)

    # --- sizes ----------------------------------------------------------------------

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size of a wheel with as few requests as possible."""
        whole = self._whole_wheels.find(file)
        if whole is not None:
            return size_of_local(whole, unpacked=unpacked)
        sha256 = file.hashes.get("sha256")
        cached_path = self._store.wheel(sha256) if sha256 is not None else None
        if not unpacked:
            if cached_path is not None:
                return size_of_local(cached_path, unpacked=False)
            if file.size is not None:
                return FileSize(file.size)
        key = wheel_size_key(sha256, file.url)
        entry = self._store.read("members", key) if sha256 is not None else None
        if entry is not None:
            total, inside = map(int, entry.body.split())
            return FileSize(total, inside, is_on_disk=cached_path is not None)
        if cached_path is not None:  # its bytes are checked when they are used
            size = size_of_local(cached_path, unpacked=True)
            if size.unpacked is not None:
                self._remember_size(key, size)
            return size
        from wheelfit.wheels.partial_archive import read_sizes
        from wheelfit.wheels.remote import RangeUnsupported

        try:
            with self._ranges_of(file) as source:
                size = FileSize(*read_sizes(source, where=redact(file.url)))
        except RangeUnsupported:
            return self._packed_size(file, unpacked=unpacked)
        except (NetworkError, IntegrityError) as error:
            return FileSize(file.size, why_unknown=error.message)
        if sha256 is not None:
            self._remember_size(key, size)
        return size

    def _remember_size(self, key: str, size: FileSize) -> None:
        self._store.write("members", key, {}, f"{size.file} {size.unpacked}".encode())

    @contextmanager
    def _ranges_of(self, file: File, first_request: int | None = None) -> Iterator[ByteSource]:
        """Yield the bytes of a wheel, fetched as they are read.

        :param first_request: bytes of the first request, from the end; None: as many as the
            directory of most wheels needs.
        :raises RangeUnsupported: the server does not support ranges, which is remembered.
        """
        from wheelfit.sources.ranged_file import RangedFile
        from wheelfit.wheels.partial_archive import END_SIZE
        from wheelfit.wheels.remote import RangeUnsupported

        if self._lacks_ranges(file):
            raise RangeUnsupported(_NO_RANGES)
        if self._pages.offline:
            raise offline(file.url)
        try:
            yield RangedFile(
                partial(self._client.get_range, file.url),
                where=redact(file.url),
                first_request=first_request or END_SIZE,
            )
        except RangeUnsupported:
            self._remember_lack_of_ranges(file)
            raise

    def _packed_size(self, file: File, *, unpacked: bool) -> FileSize:
        """Return the size of a file in the listing or in the head of a response.

        :param unpacked: whether the unpacked size was requested, which stays unknown.
        """
        total = file.size
        if total is None:
            try:
                with self._client.stream(file.url) as (response, where):
                    if response.status != 200:
                        raise unexpected(response.status, where)
                    total = announced_size(response)
            except NetworkError as error:
                return FileSize(None, why_unknown=error.message)
        is_answered = total is not None and not unpacked
        return FileSize(total, why_unknown="" if is_answered else _NO_RANGES)

    def open(self, file: File) -> ByteSource:
        """Return the bytes of a wheel, fetched as they are read.

        :raises TooCostly: the server does not support ranges.
        """
        from wheelfit.sources.ranged_file import FIRST_REQUEST
        from wheelfit.wheels.bytes_source import open_local
        from wheelfit.wheels.remote import RangeUnsupported

        cached_path = self._whole_wheels.find(file) or self._cached_wheel(file)
        if cached_path is not None:
            return open_local(cached_path)
        try:
            with self._ranges_of(file, FIRST_REQUEST) as source:
                return source
        except RangeUnsupported as error:
            raise _too_costly(file, error.reason) from error

    # --- whole wheels ---------------------------------------------------------------

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Fetch the whole file into a folder and return its path there."""
        try:
            cached_path = self._whole_wheels.find(file) or self._cached_wheel(file)
            if cached_path is not None:
                return self._link_cached(cached_path, file, folder, progress)
            if self._pages.offline:
                raise offline(file.url)
            sha256 = file.hashes.get("sha256")
            if sha256 is not None:
                try:
                    path = self._download_into_store(file, sha256, progress)
                except OSError as error:  # its disk may be full, and that of the folder not
                    self._store.warn_once(error)
                    path = None
                if path is not None:
                    return link_or_copy(path, folder, file.filename)
            return self._download_into(folder, file, progress)
        except OSError as error:
            raise _unwritable(file, folder, error) from error

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified."""
        filename, where = parse_wheel_filename(file.filename), redact(file.url)
        sha256 = file.hashes.get("sha256")
        if sha256 is not None:
            cached = self._wheels.find(sha256, filename, where=where, hashes=file.hashes)
            if cached is not None:
                return cached
            with self._wheels.exclusive(sha256, progress):
                # Another process may have fetched it meanwhile.
                cached = self._wheels.find(sha256, filename, where=where, hashes=file.hashes)
                return cached or self._unpacked_anew(file, folder, progress)
        return self._unpacked_anew(file, folder, progress)

    def _unpacked_anew(self, file: File, folder: Path, progress: Progress) -> UnpackedWheel:
        """Fetch a wheel, unless its archive is on disk, and unpack it."""
        filename, where = parse_wheel_filename(file.filename), redact(file.url)
        sha256 = file.hashes.get("sha256")
        may_stream = self._whole_wheels.find(file) is None and not self._pages.offline
        if sha256 is not None and may_stream and self._store.wheel(sha256) is None:
            return self._unpacked_from_server(file, sha256, folder, progress)
        import tempfile

        with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=folder) as inside:
            path = self.download(file, Path(inside), progress)
            try:
                digest = sha256 or check_file(path, {}, None, where=where)
                return self._wheels.unpacked(
                    path, filename, digest, folder, where=where, progress=progress
                )
            except IntegrityError:
                if sha256 is not None:
                    self._store.forget_wheel(sha256)
                raise

    def _unpacked_from_server(
        self, file: File, sha256: str, folder: Path, progress: Progress
    ) -> UnpackedWheel:
        """Unpack a wheel while it arrives, and cache the archive as well."""
        filename, where = parse_wheel_filename(file.filename), redact(file.url)

        def unpack(
            source: ByteSource,
            check: Callable[[], None],
            find_verified: FindVerified | None = None,
            path: Path | None = None,
        ) -> UnpackedWheel:
            return self._wheels.unpacked(
                source,
                filename,
                sha256,
                folder,
                where=where,
                check=check,
                path=path,
                find_verified=find_verified,
                progress=progress,
            )

        try:
            with self._store.new_wheel() as temporary:
                if temporary is not None:
                    target, path = temporary
                    delta = self._begin_delta_download(file, target, progress)
                    wheel, has_archive = None, True
                    if delta is not None:
                        wheel = self._unpack_assembled(delta, target, unpack)
                        has_archive = wheel is None or delta.keeps_archive
                    if wheel is None:
                        wheel = self._fetch(file, target, progress, partial(unpack, path=path))
                    if has_archive:
                        with suppress(OSError):  # the unpacked wheel is complete without it
                            self._keep(target, path, sha256)
                    return wheel
        except OSError as error:  # its disk may be full, and that of the folder not
            self._store.warn_once(error)
        import tempfile

        try:
            with tempfile.TemporaryFile(prefix=".", suffix=".part", dir=folder) as spool:
                return self._fetch(file, spool, progress, unpack)
        except OSError as error:
            raise _unwritable(file, folder, error) from error

    def _begin_delta_download(
        self, file: File, target: BinaryIO, progress: Progress
    ) -> DeltaDownload | None:
        """Begin to assemble a wheel from a cached sibling; return None if it is not worthwhile."""
        from wheelfit.sources.delta_download import begin_delta_download
        from wheelfit.wheels.remote import RangeUnsupported

        if self._lacks_ranges(file):
            return None
        try:
            return begin_delta_download(
                self._client,
                file,
                self._wheels.siblings,
                target,
                budget=self._budget,
                progress=progress,
            )
        except RangeUnsupported:
            self._remember_lack_of_ranges(file)
            return None

    def _unpack_assembled(
        self,
        delta: DeltaDownload,
        target: BinaryIO,
        unpack: Callable[[ByteSource, Callable[[], None], FindVerified], UnpackedWheel],
    ) -> UnpackedWheel | None:
        """Unpack the assembled wheel; None if its hash is not the promised one."""
        from wheelfit.sources.segmented_download import UnusableDownload

        try:
            with delta:
                return unpack(delta.source, delta.finish, delta.find_verified)
        except UnusableDownload as problem:
            self._note(
                f"{delta.filename} cannot be assembled from a cached wheel, so it is downloaded "
                f"as a whole: {problem.reason}"
            )
        target.seek(0)
        target.truncate()
        return None

    def _cached_wheel(self, file: File) -> Path | None:
        """Return the cached archive if its bytes still have their hash."""
        sha256 = file.hashes.get("sha256")
        return None if sha256 is None else self._store.intact_wheel(sha256, file.hashes)

    def _link_cached(self, cached_path: Path, file: File, folder: Path, progress: Progress) -> Path:
        size = cached_path.stat().st_size
        progress.copying()
        progress.start(size)
        path = link_or_copy(cached_path, folder, file.filename)
        progress.advance(size)
        progress.done()
        return path

    def _download_into_store(self, file: File, sha256: str, progress: Progress) -> Path | None:
        with self._store.new_wheel() as temporary:
            if temporary is None:
                return None
            target, path = temporary
            self._fetch(file, target, progress, _check_only)
            return self._keep(target, path, sha256)

    def _keep(self, target: BinaryIO, path: Path, sha256: str) -> Path | None:
        target.flush()
        os.fsync(target.fileno())  # after a power cut, no name in the store may lack its bytes
        target.close()
        return self._store.keep_wheel(path, sha256)

    def _fetch(
        self,
        file: File,
        target: BinaryIO,
        progress: Progress,
        use: Callable[[ByteSource, Callable[[], None]], _T],
    ) -> _T:
        """Download a file as `Download.read_with` does, and remember a server without ranges."""
        from wheelfit.sources.downloads import Download

        download = Download(
            self._client,
            file,
            progress,
            self._budget,
            self._connections,
            may_use_ranges=not self._lacks_ranges(file),
        )
        try:
            return download.read_with(use, target)
        finally:
            if download.lacks_ranges:
                self._remember_lack_of_ranges(file)

    def _lacks_ranges(self, file: File) -> bool:
        """Return whether the server of a file is known not to support byte ranges."""
        with self._lock:
            return origin(file.url) in self._without_ranges

    def _remember_lack_of_ranges(self, file: File) -> None:
        with self._lock:
            self._without_ranges.add(origin(file.url))

    def _download_into(self, folder: Path, file: File, progress: Progress) -> Path:
        import tempfile

        from wheelfit.wheels.linking import current_umask

        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=folder)
        path = Path(name)
        try:
            with os.fdopen(descriptor, "w+b") as target:
                self._fetch(file, target, progress, _check_only)
            path.chmod(0o666 & ~current_umask())  # temporary files are private
            return path.replace(folder / file.filename)
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)


class _WholeWheels:
    """The wheels fetched as a whole for their metadata, which the installation uses again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: TemporaryDirectory[str] | None = None
        self._paths = MemoryCache[Path](sys.maxsize, lambda _path: 1)

    def find(self, file: File) -> Path | None:
        """Return the path of a wheel; None if it was not fetched yet."""
        return self._paths.peek(_identity(file))

    def get(self, file: File, fetch: Callable[[Path], Path]) -> Path:
        """Return the path of a wheel, fetching it if need be."""
        return self._paths.get(_identity(file), lambda: fetch(self._new_folder()))

    def close(self) -> None:
        """Remove all wheels."""
        with self._lock:
            self._paths = MemoryCache(sys.maxsize, lambda _path: 1)
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def _new_folder(self) -> Path:
        import tempfile

        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="wheelfit-")
            return Path(tempfile.mkdtemp(dir=self._folder.name))


def _identity(file: File) -> _Identity:
    return file.url, frozenset(file.hashes.items())


def _check_only(_source: ByteSource, check: Callable[[], None]) -> None:
    check()


def _unwritable(file: File, folder: Path, error: OSError) -> FileProblem:
    return FileProblem(f"{file.filename} cannot be written: {os_reason(error)}", where=str(folder))


def _metadata_url(url: str) -> str:
    path, mark, query = url.partition("?")
    return f"{path}.metadata{mark}{query}"


def _too_costly(file: File, reason: str) -> TooCostly:
    return TooCostly(f"{file.filename} cannot be read in parts: {reason}", where=redact(file.url))
