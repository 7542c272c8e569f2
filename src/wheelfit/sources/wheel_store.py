"""A cache of unpacked wheels, by the SHA-256 of their archive.

An entry is a folder as `wheelfit.wheels.unpacked` describes it. It is written under a temporary
name, and renamed when it is complete, verified and on the disk. Its files are linked into
environments, where users may edit them: an entry with a changed file is removed and never used.
Changes are detected by sizes and times, or, if hashes are required, by comparing every byte with
the archive of the promised hash.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import warnings
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.sources.cache import Store, local_digest_key, mark_used
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit_runtime.errors import FileProblem, IntegrityError, InvalidWheel, os_reason
from wheelfit_runtime.platforms.cache_folder import unsafe_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from filelock import BaseFileLock
    from packaging.utils import NormalizedName

    from wheelfit.sources.unpacking_workers import UnpackingWorker, UnpackingWorkers
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.file_system import FileSystem
    from wheelfit.wheels.unpacked import UnpackedWheel
    from wheelfit.wheels.unpacking import FindVerified

_KIND = "unpacked"
_PARTIAL = ".part"
_BLOCK = 1 << 20
_RENAME_ATTEMPTS = 50
_RENAME_PAUSE = 0.01
_STEM_SIZE = 16
"""Characters of the name of an entry with which its temporary names begin."""
_POLL_INTERVAL = 0.05
_LOCK_TIMEOUT = 600.0
"""Seconds to wait for another process that fetches the same wheel."""
_MAX_WORKER_SIZE = 32 << 20
"""Bytes of the largest archive for a worker. Larger ones are unpacked while they arrive, by several
threads, which wait less for each other since their files are larger."""
_TIME_RESOLUTION = 2.0
"""Seconds after which another change of a file certainly changes its times."""


class Sibling(Struct, frozen=True):
    """A cached wheel of a project."""

    archive: Path
    """The archive, not verified."""
    wheel: UnpackedWheel
    """The unpacked wheel; its label is unknown."""


class WheelStore:
    """Unpacked wheels by the hash of their archive.

    :param by_content: whether a cached wheel is compared with its archive, byte by byte, before it
        is used; a wheel without its archive is not used.
    :param has_workers: whether other processes unpack and compare wheels, too.
    :param files: the file system; None: that of this machine.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        *,
        note: Callable[[str], None] = lambda _text: None,
        by_content: bool = False,
        has_workers: bool = False,
        files: FileSystem | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._note = note
        self._by_content = by_content
        self._has_workers = has_workers
        self._workers: UnpackingWorkers | None = None
        self._workers_lock = threading.Lock()
        self._given_files = files
        self._clock = clock
        self._locks = store.locks

    def close(self) -> None:
        """End the workers, from any thread."""
        if self._workers is not None:
            self._workers.close()

    @cached_property
    def _files(self) -> FileSystem:
        from wheelfit.wheels.file_system import NATIVE

        return self._given_files or NATIVE

    def find(
        self,
        sha256: str,
        filename: WheelFilename,
        *,
        where: str,
        hashes: Mapping[str, str] | None = None,
        archive: Path | None = None,
    ) -> UnpackedWheel | None:
        """Return a cached wheel; remove it if it was edited.

        :param hashes: further promised hashes of the archive.
        :param archive: the path of the archive; None: in the cache.
        :raises InvalidWheel: it is of another release than its name states.
        """
        from wheelfit.wheels.unpacked import MANIFEST, read_unpacked

        entry = self._entry(sha256)
        if entry is None or not self._locks.lock(entry / MANIFEST):
            return None
        mark_used(entry / MANIFEST)
        unsafe = unsafe_folder(str(entry))
        wheel = None if unsafe else read_unpacked(entry, filename, where=where)
        if wheel is None or wheel.sha256 != sha256:
            self._drop(entry)
            return None
        inodes: Sequence[int] = ()
        if self._by_content:
            path = archive or self._store.wheel(sha256)
            try:
                changed = self._compare(wheel, path, {**(hashes or {}), "sha256": sha256})
            except (OSError, IntegrityError):
                self._note(
                    f"hashes are required, and the archive of {filename.text} is not in the cache, "
                    "so it is fetched again"
                )
                return None
        else:
            status = wheel.inspect()
            changed, inodes = status.changed, status.inodes
        if changed is not None:
            self._note(
                f"{changed} of the unpacked {filename.text} in the cache was changed, so the "
                "wheel is unpacked again"
            )
            self._drop(entry)
            return None
        return replace(wheel, inodes=inodes)

    @contextmanager
    def exclusive(self, sha256: str, progress: Progress = NO_PROGRESS) -> Iterator[None]:
        """Lock a wheel, so that one process fetches and unpacks it for all others.

        The lock only avoids duplicate work: after ten minutes, and if the file system has no locks,
        the block runs without it.

        :param progress: called often with zero bytes while waiting, so that it can raise an error
            to end that.
        """
        entry = self._entry(sha256)
        if entry is None:
            yield
            return
        path = entry.parent / f".{entry.name}.lock"
        lock = self._wait_for_lock(path, progress)
        try:
            if lock is not None:
                _remove_leftovers(entry)
            yield
        finally:
            if lock is not None:
                # Removed while held: a waiting process notices and creates a new one.
                with suppress(OSError):
                    path.unlink()
                lock.release()

    def _wait_for_lock(self, path: Path, progress: Progress) -> BaseFileLock | None:
        """Return the acquired lock; None after ten minutes, or if there are no locks."""
        from filelock import FileLock, Timeout

        deadline = time.monotonic() + _LOCK_TIMEOUT
        try:
            self._store.prepare(path.parent)
            lock = FileLock(path, timeout=0, fallback_to_soft=False)
            while True:
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        lock.acquire()
                except Timeout:
                    if time.monotonic() >= deadline:
                        return None
                    progress.advance(0)
                    time.sleep(_POLL_INTERVAL)
                else:
                    return lock
        except (OSError, NotImplementedError):
            return None  # read-only, or a network file system

    def unpacked(
        self,
        source: Path | ByteSource,
        filename: WheelFilename,
        sha256: str,
        folder: Path | None,
        *,
        where: str,
        check: Callable[[], None] = lambda: None,
        path: Path | None = None,
        find_verified: FindVerified | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> UnpackedWheel:
        """Unpack a wheel into the cache, or into a folder where that is not possible.

        :param source: the archive, which may still be arriving.
        :param folder: None: only into the cache.
        :param check: waits until the archive is complete; raises an error if its hash is wrong.
            Nothing is cached before.
        :param path: the file that the archive arrives in.
        :param find_verified: finds files of other wheels that are unpacked already; None: none.
        :raises InvalidWheel: it is not valid; nothing is cached.
        :raises FileProblem: it cannot be written.
        """
        from wheelfit.wheels.archive import WheelArchive
        from wheelfit.wheels.unpacking import unpack

        def hash_after_check() -> str:
            check()
            return sha256

        # Opened as a plain wheel: a variant wheel without document is unusable (F-27), but the
        # selection reports that.
        plain = parse_wheel_filename(filename.plain)
        path = source if isinstance(source, Path) else path
        archive_size = source.stat().st_size if isinstance(source, Path) else source.size
        with ExitStack() as stack:
            if path is not None and archive_size <= _MAX_WORKER_SIZE and find_verified is None:
                worker = stack.enter_context(self._process(archive_size, check))
                if worker is not None:
                    wheel = self._unpack_in_worker(worker, path, filename, sha256, where)
                    if wheel is not None:
                        unpacked_size = sum(wheel.files.sizes)
                        progress.unpacking(unpacked_size).advance(unpacked_size)
                        return wheel
                    progress.advance(0)  # raises an error if the worker was ended on purpose
                    source = path
            archive = stack.enter_context(WheelArchive(source, plain, where=where))
            size = sum(member.size for member in archive.members)
            unpacking = progress.unpacking(size)
            unpack_into = partial(
                unpack,
                archive,
                sha256=hash_after_check,  # called at the end
                # `find_verified` compares size and time only, not the content.
                find_verified=None if self._by_content else find_verified,
                advance=unpacking.advance,
                in_order=not isinstance(source, Path),  # it may still be arriving
                files=self._files,
            )
            entry = self._entry(sha256)
            if entry is not None:
                try:
                    wheel = self._unpack_into_cache(entry, unpack_into)
                except OSError as error:  # its disk may be full, and that of the folder not
                    self._store.warn_once(error)
                else:
                    return replace(wheel, filename=filename)
            if folder is None:
                raise FileProblem(f"{filename.text} cannot be cached", where=where)
            try:
                return replace(_unpack_into_folder(folder, unpack_into), filename=filename)
            except OSError as error:
                from wheelfit.wheels.disk_space import FULL, no_space_message

                reason = os_reason(error)
                if error.errno in FULL:
                    reason = no_space_message(folder, size, error=error)
                raise FileProblem(
                    f"{filename.text} cannot be unpacked: {reason}",
                    where=str(folder),
                    hint="make room, or set TMPDIR to a folder on another disk",
                ) from error

    def _unpack_in_worker(
        self, worker: UnpackingWorker, path: Path, filename: WheelFilename, sha256: str, where: str
    ) -> UnpackedWheel | None:
        """Return an archive unpacked by a worker; None if it failed."""
        from wheelfit.sources.unpacking_workers import UnpackingTask
        from wheelfit.wheels.unpacked import MANIFEST, read_unpacked

        task = UnpackingTask(str(path), filename.text, sha256, where, self._by_content)
        entry = self._entry(sha256)
        if entry is None:
            return None
        if worker.run(task) is None:
            _remove_leftovers(entry)  # of a worker that was ended
            return None
        if not self._locks.lock(entry / MANIFEST):
            return None
        return read_unpacked(entry, filename, where=where)

    @contextmanager
    def _process(
        self, size: int, wait: Callable[[], None] = lambda: None
    ) -> Iterator[UnpackingWorker | None]:
        """Yield a process for a task, as `UnpackingWorkers.take` does; None: this one."""
        if not self._has_workers or self._store.folder is None:
            yield None
            return
        with self._workers_lock:
            if self._workers is None:
                from wheelfit.sources.unpacking_workers import UnpackingWorkers

                self._workers = UnpackingWorkers(self._store.folder)
        with self._workers.take(size, wait) as worker:
            yield worker

    def siblings(self, name: NormalizedName, min_size: int) -> Iterator[Sibling]:
        """Yield wheels of a project that are cached both packed and unpacked, the newest first.

        They are not verified; the caller verifies every byte taken from them.

        :param min_size: bytes of the smallest archive.
        """
        from wheelfit.wheels.unpacked import MANIFEST, read_unpacked, release_of

        for sha256, archive in self._store.wheels(min_size):
            entry = self._entry(sha256)
            with suppress(InvalidFilename, InvalidWheel):
                if entry is None or (stem := release_of(entry)) is None:
                    continue
                filename = parse_wheel_filename(f"{stem}-py3-none-any.whl")
                if filename.name != name or not self._locks.lock(entry / MANIFEST):
                    continue
                wheel = read_unpacked(entry, filename, where=str(archive))
                if wheel is not None:
                    yield Sibling(archive, wheel)

    def _rename_entry(self, partial_folder: Path, entry: Path) -> None:
        """Rename an entry to its final name, unless another process has written the same one.

        :raises OSError: it cannot be renamed, and there is no such entry.
        """
        from wheelfit.wheels.unpacked import MANIFEST

        for _ in range(_RENAME_ATTEMPTS):
            try:
                self._files.move(partial_folder, entry)
            except FileExistsError:
                if self._by_content:  # the contents of the existing one were not compared
                    self._drop(entry)
                    continue
                if self._locks.lock(entry / MANIFEST):
                    return  # another process has written it
                # Another process is removing it, or it is damaged: without a manifest.
                if not (entry / MANIFEST).exists():
                    self._drop(entry)
                time.sleep(_RENAME_PAUSE)
            else:
                return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(entry))

    def _unpack_into_cache(
        self, entry: Path, unpack_into: Callable[[Path], UnpackedWheel]
    ) -> UnpackedWheel:
        import shutil
        import tempfile

        from wheelfit.wheels.unpacked import MANIFEST

        self._store.prepare(entry.parent)
        partial_folder = Path(
            tempfile.mkdtemp(prefix=_stem(entry), suffix=_PARTIAL, dir=entry.parent)
        )
        self._locks.lock(partial_folder)
        try:
            wheel = unpack_into(partial_folder)
            self._files.sync_tree(partial_folder)
            self._locks.lock(partial_folder / MANIFEST)  # the lock survives the rename
            # The rename need not be synced: after a power cut the entry is whole or missing.
            self._rename_entry(partial_folder, entry)
        finally:
            if partial_folder.exists():
                shutil.rmtree(partial_folder, ignore_errors=True)
        return replace(wheel, folder=entry)

    def digest_of(self, path: Path, status: os.stat_result) -> str | None:
        """Return the cached SHA-256 of a file on this machine; None if it is unknown.

        A change of the file may not show in its status, so the result is None if wheels are
        compared by content.
        """
        if self._by_content:
            return None
        entry = self._store.read("members", local_digest_key(path, status))
        return None if entry is None else entry.body.decode("ascii", "replace")

    def remember_digest(self, path: Path, status: os.stat_result, sha256: str) -> None:
        """Cache the SHA-256 of a file on this machine until its status changes.

        :param status: the file's status before it was read.
        :param sha256: hexadecimal.
        """
        if self._by_content:
            return  # `digest_of` does not read it
        # A second change within one tick of the clock would not be detected.
        if self._clock() - max(status.st_mtime, status.st_ctime) > _TIME_RESOLUTION:
            self._store.write("members", local_digest_key(path, status), {}, sha256.encode())

    def _drop(self, entry: Path) -> None:
        """Rename an entry, so that no process finds a part of it, and remove it."""
        import shutil
        import tempfile

        with suppress(OSError):
            temporary = Path(tempfile.mkdtemp(prefix=".", suffix=_PARTIAL, dir=entry.parent))
            try:
                self._files.move(entry, temporary / "entry")
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def differing_file(
        self, filename: WheelFilename, archive: Path, hashes: Mapping[str, str], *, where: str
    ) -> str | None:
        """Return the name of a file of an unpacked wheel that differs from its archive.

        :param hashes: those that the archive must have, ``sha256`` among them.
        :return: None if no file differs.
        :raises FileNotFoundError: there is no such wheel.
        :raises IntegrityError: the archive has another hash.
        """
        from wheelfit.wheels.unpacked import read_unpacked

        entry = self._entry(hashes["sha256"])
        wheel = None if entry is None else read_unpacked(entry, filename, where=where)
        if wheel is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), where)
        return _differing_file(wheel, archive, hashes)

    def _compare(
        self, wheel: UnpackedWheel, archive: Path | None, hashes: dict[str, str]
    ) -> str | None:
        """Return what `differing_file` returns, found here or by a worker.

        :raises FileNotFoundError: there is no archive.
        """
        if archive is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), wheel.where)
        with self._process(archive.stat().st_size) as worker:
            if worker is not None:
                from wheelfit.sources.unpacking_workers import UnpackingTask

                name, where = wheel.filename.text, wheel.where
                task = UnpackingTask(
                    str(archive), name, wheel.sha256, where, self._by_content, hashes
                )
                if (result := worker.run(task)) is not None:
                    return result.changed
            return _differing_file(wheel, archive, hashes)

    def _entry(self, sha256: str) -> Path | None:
        return self._store.path_of(_KIND, sha256)


def _unpack_into_folder(
    folder: Path, unpack_into: Callable[[Path], UnpackedWheel]
) -> UnpackedWheel:
    """Unpack into a new subfolder, which is removed after an error."""
    import shutil
    import tempfile

    subfolder = Path(tempfile.mkdtemp(prefix="unpacked-", dir=folder))
    try:
        return unpack_into(subfolder)
    except BaseException:
        shutil.rmtree(subfolder, ignore_errors=True)
        raise


def _remove_leftovers(entry: Path) -> None:
    """Remove temporary folders of an entry that processes left when they were ended."""
    import shutil

    # `Path.glob` compiles a pattern for each wheel, a tenth of the time of a sync.
    with suppress(OSError):
        for path in entry.parent.iterdir():
            if path.name.startswith(_stem(entry)) and path.name.endswith(_PARTIAL):
                shutil.rmtree(path, ignore_errors=True)


def _stem(entry: Path) -> str:
    """Return the beginning of the temporary names of an entry."""
    return f".{entry.name[:_STEM_SIZE]}-"


def _differing_file(wheel: UnpackedWheel, archive: Path, hashes: Mapping[str, str]) -> str | None:
    """Return the name of a file that differs from the archive; None if none does.

    :raises FileNotFoundError: there is no archive.
    :raises IntegrityError: the archive's hash is not the promised one.
    """
    from wheelfit.sources.hash_check import HashCheck
    from wheelfit.wheels.archive import WheelArchive
    from wheelfit.wheels.bytes_source import open_local
    from wheelfit.wheels.unchanged_content import differing_file

    with closing(open_local(archive)) as source:
        check = HashCheck(hashes, None, where=wheel.where)
        for start in range(0, source.size, _BLOCK):
            check.update(source.read_at(start, _BLOCK))
        check.finish()
        plain = parse_wheel_filename(wheel.filename.plain)
        with WheelArchive(source, plain, where=wheel.where) as opened:
            return differing_file(wheel, opened)
