"""Unpack a wheel into a folder, and verify every byte on the way.

RECORD is compared with the central directory first, so that most faults are found before anything
is written; the contents are compared while they are unpacked. Only folders and regular files are
created.

A large member is unpacked by one thread while another one hashes and writes the pieces; small
members are unpacked in batches, since handing ten thousand from thread to thread one by one would
cost more than it saves. Only these pieces are in memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.wheels.archive import SIGNATURES, WheelArchive
from wheelfit.wheels.background import BackgroundCalls
from wheelfit.wheels.disk_operations import write_all
from wheelfit.wheels.file_system import NATIVE
from wheelfit.wheels.linking import current_umask
from wheelfit.wheels.paths import target_faults
from wheelfit.wheels.processors import processor_count
from wheelfit.wheels.record import RecordRow, encode_digest, leads_out
from wheelfit.wheels.unpacked import TREE, FileTable, UnpackedWheel, write_manifest
from wheelfit.wheels.zip_archive import faults_error
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import TypeAlias

    from wheelfit.wheels.file_system import FileSystem
    from wheelfit.wheels.zip_directory import Member

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_LARGE = 2 << 20  # bytes of a member that is worth two threads
_BATCH = 4 << 20  # bytes of small members that one thread unpacks together
_REPORTED = 100  # small files after which progress is reported, and so Ctrl-C is noticed
_MAX_WORKERS = 4
_WRITE_BACK = 8 << 20  # bytes after which writing to the disk begins


def unpack(
    archive: WheelArchive,
    folder: Path,
    *,
    sha256: str | Callable[[], str],
    advance: Callable[[int], None] = lambda _: None,
    find_verified: FindVerified | None = None,
    in_order: bool = False,
    files: FileSystem = NATIVE,
    is_windows: bool = os.name == "nt",
) -> UnpackedWheel:
    """Unpack a wheel; after an error the content of the folder is undefined.

    :param sha256: the hash of the archive; a function is called after the last read.
    :param advance: called with each number of further bytes of content.
    :param find_verified: finds files to be linked instead of unpacked; None: all are unpacked.
    :param in_order: whether to unpack members in their order, as of an archive that is still being
        downloaded; otherwise the largest batches come first.
    :raises InvalidWheel: the wheel is not sound, differs from its RECORD, or has names that this
        system does not allow (B-34).
    :raises OSError: the folder cannot be written.
    """
    rows = record_rows(archive)
    names = (member.name for member in archive.members)
    ignores_case = not files.is_case_sensitive(folder)
    if faults := target_faults(names, is_windows=is_windows, ignores_case=ignores_case):
        raise faults_error(faults, archive.where)
    tree = folder / TREE
    _make_folders(tree, (member.name for member in archive.members if not member.is_folder))
    umask = current_umask()
    unpacker = _Unpacker(archive, rows, str(tree) + os.sep, umask, advance)
    members: Iterable[Member] = archive.members
    if find_verified is not None:
        members = unpacker.link(members, find_verified)  # links as `_batches` reads the members
    batches = list(_batches(members))
    if not in_order:
        batches.sort(key=_size, reverse=True)
    unpacker.unpack(batches)
    archive_hash = sha256 if isinstance(sha256, str) else sha256()
    file_members = [member for member in archive.members if not member.is_folder]
    written = [unpacker.written[member.name] for member in file_members]
    table = FileTable(
        [member.name for member in file_members],
        [digest for digest, _ in written],
        [member.size for member in file_members],
        "".join(["x" if member.is_executable else "-" for member in file_members]),
        [time for _, time in written],
    )
    wheel = UnpackedWheel(
        folder, archive.filename, archive_hash, archive.dist_info, table, umask, archive.where
    )
    write_manifest(wheel)
    return wheel


def record_rows(archive: WheelArchive) -> dict[str, RecordRow]:
    """Return the rows of all files except RECORD and signatures, after checking them (B-36).

    Rows without a file, which some well-known wheels have, are ignored.

    :raises InvalidWheel: a row is missing, or has no accepted hash or another size.
    """
    faults = []
    rows: dict[str, RecordRow] = {}
    for row in archive.record.rows:
        if row.path in rows:
            faults.append(f"RECORD lists {row.path!r} twice")
        if leads_out(row.path):
            faults.append(f"RECORD lists {row.path!r}, which leads out of the wheel")
        rows[row.path] = row
    exempt = {f"{archive.dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    members = [
        member for member in archive.members if not member.is_folder and member.name not in exempt
    ]
    for member in members:
        fault = archive.member_fault(member, rows.get(member.name), contents=False)
        if fault is not None:
            faults.append(fault.message)
    if faults:
        raise InvalidWheel(faults[0], where=archive.where, note="\n".join(faults[1:20]) or None)
    # Some wheels have padded hashes, which is not allowed.
    return {
        row.path: row._replace(hash=row.hash.rstrip("=")) if row.hash.endswith("=") else row
        for row in (rows[member.name] for member in members)
    }


def _make_folders(tree: Path, names: Iterable[str]) -> None:
    """Create the folders of all files, whose names were checked: none leads out of the tree."""
    os.mkdir(tree)  # noqa: PTH102 - there may be thousands
    prefix = str(tree) + os.sep
    existing = {""}
    for name in names:
        missing = []
        folder = name.rpartition("/")[0]
        while folder not in existing:
            existing.add(folder)
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        for folder in reversed(missing):
            os.mkdir(prefix + folder)  # noqa: PTH102


def _batches(members: Iterable[Member]) -> Iterator[list[Member]]:
    """Yield the batches of workers: one large member, or adjacent small ones."""
    batch: list[Member] = []
    size = 0
    for member in members:
        if member.size >= _LARGE:
            yield [member]
            continue
        batch.append(member)
        size += _size([member])
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _size(batch: Sequence[Member]) -> int:
    # Opening a file takes as long as unpacking some kilobytes.
    return sum(member.size for member in batch) + 4096 * len(batch)


class VerifiedFile(NamedTuple):
    """An unpacked file with the content of a member, which was verified earlier."""

    path: str
    mtime_ns: int
    """The time of modification when it was verified; a file with another time is not used."""
    is_header_known: bool = False
    """Whether the local header of the member was also compared with its entry."""


FindVerified: TypeAlias = "Callable[[Member, RecordRow], VerifiedFile | None]"
"""A function from a member and its row in RECORD to a file with its content, if there is one."""


class _Counter:
    """The number of wheels that this process is unpacking.

    It limits the threads to the number of processors: with more threads, a hundred wheels took 2 to
    12 % more processor time.
    """

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.count -= 1


_UNPACKING = _Counter()


class _Stopped(Exception):
    """Raised in a worker after another one has failed."""


class _Unpacker:
    """The unpacking of members by several threads, all of which end after the first failure."""

    def __init__(
        self,
        archive: WheelArchive,
        rows: dict[str, RecordRow],
        tree: str,
        umask: int,
        advance: Callable[[int], None],
    ) -> None:
        self.written: dict[str, tuple[str, int]] = {}
        """By name of a file, its hash as in RECORD and its time of modification."""
        self._archive = archive
        self._rows = rows
        self._tree = tree
        self._plain_mode = 0o666 & ~umask
        self._executable_mode = 0o777 & ~umask | 0o111
        self._needs_chmod = umask & 0o111 != 0 and hasattr(os, "fchmod")
        self._advance = advance
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._processors = processor_count()

    def link(self, members: Iterable[Member], find_verified: FindVerified) -> Iterator[Member]:
        """Link the verified files, and yield the other members.

        Several threads would mostly wait for each other here.
        """
        unreported = 0
        for member in members:
            row = self._rows.get(member.name)
            file = find_verified(member, row) if row is not None else None
            if row is None or file is None or not self._link(file, member, row):
                yield member
                continue
            if not file.is_header_known:
                self._archive.data_start(member)
            unreported += member.size
            if unreported >= _BATCH:
                self._report(unreported)
                unreported = 0
        self._report(unreported)

    def _link(self, file: VerifiedFile, member: Member, row: RecordRow) -> bool:
        """Link a file of another wheel; return False if that fails, or the file was edited."""
        target = self._tree + member.name
        try:
            os.link(file.path, target)
        except OSError:
            return False
        status = os.lstat(target)
        executable = member.is_executable
        mode = stat.S_IFREG | (self._executable_mode if executable else self._plain_mode)
        if (status.st_mode, status.st_size, status.st_mtime_ns) != (
            mode,
            member.size,
            file.mtime_ns,
        ):
            os.unlink(target)  # noqa: PTH108
            return False
        self.written[member.name] = row.hash, file.mtime_ns
        return True

    def unpack(self, batches: Sequence[list[Member]]) -> None:
        """Unpack batches, in about their order."""
        with _UNPACKING:
            remaining = iter(batches)
            count = min(self._share(), _MAX_WORKERS, len(batches))
            threads = [
                threading.Thread(target=self._work, args=(remaining,), name=f"unpack-{number}")
                for number in range(1, count)
            ]
            for thread in threads:
                thread.start()
            self._work(remaining)
            for thread in threads:
                thread.join()
        if self._failures:
            raise self._failures[0]

    def _share(self) -> int:
        """Return the number of processors for this wheel while others are unpacked as well."""
        return max(1, self._processors // _UNPACKING.count)

    def _work(self, remaining: Iterator[list[Member]]) -> None:
        try:
            while True:
                with self._lock:
                    batch = next(remaining, None)
                if batch is None:
                    return
                self._unpack_batch(batch)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._failures.append(error)

    def _unpack_batch(self, batch: Sequence[Member]) -> None:
        if len(batch) == 1 and batch[0].size >= _LARGE:
            self._write_large(batch[0], self._rows.get(batch[0].name))
            return
        unreported = 0
        for member in batch:
            if member.is_folder:
                self._archive.data_start(member)  # which checks its local header
        files = (member for member in batch if not member.is_folder)
        for count, (member, data) in enumerate(self._archive.contents(files), 1):
            if self._failures:
                raise _Stopped
            self._write_small(member, data, self._rows.get(member.name))
            unreported += member.size
            if count % _REPORTED == 0:
                self._report(unreported)
                unreported = 0
        self._report(unreported)

    def _report(self, count: int) -> None:
        with self._lock:
            self._advance(count)

    def _write_small(self, member: Member, data: bytes, row: RecordRow | None) -> None:
        """Write a file that is in memory as a whole."""
        algorithm = _algorithm(row)
        digest = getattr(hashlib, algorithm)(data).digest()
        actual = f"{algorithm}={encode_digest(digest)}"
        self._check(member, row, actual)
        descriptor = self._create(member)
        try:
            write_all(descriptor, data)
            mtime_ns = os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)
        self.written[member.name] = actual, mtime_ns

    def _write_large(self, member: Member, row: RecordRow | None) -> None:
        """Write a file piece by piece; another thread hashes and writes the unpacked pieces."""
        algorithm = _algorithm(row)
        hasher = hashlib.new(algorithm)
        descriptor = self._create(member)
        flushed = count = 0

        def write_piece(piece: bytes) -> None:
            nonlocal flushed, count
            hasher.update(piece)
            write_all(descriptor, piece)
            count += len(piece)
            if count - flushed >= _WRITE_BACK:
                from wheelfit.wheels.system_calls import start_writeback  # imports ctypes

                start_writeback(descriptor, flushed, count - flushed)
                flushed = count

        try:
            writer: AbstractContextManager[Callable[[bytes], object]] = nullcontext(write_piece)
            if self._share() > 1:
                writer = BackgroundCalls(write_piece, "unpack-write")
            with writer as write:
                for piece in self._archive.chunks(member.name):
                    if self._failures:
                        raise _Stopped
                    write(piece)
                    self._report(len(piece))
            mtime_ns = os.fstat(descriptor).st_mtime_ns
        finally:
            os.close(descriptor)
        actual = f"{algorithm}={encode_digest(hasher.digest())}"
        self._check(member, row, actual)
        self.written[member.name] = actual, mtime_ns

    def _create(self, member: Member) -> int:
        executable = member.is_executable
        descriptor = os.open(self._tree + member.name, _NEW, 0o777 if executable else 0o666)
        if executable and self._needs_chmod:
            os.fchmod(descriptor, self._executable_mode)
        return descriptor

    def _check(self, member: Member, row: RecordRow | None, actual: str) -> None:
        """Compare a hash with RECORD; a file without a row has only its CRC-32."""
        if row is not None and row.hash != actual:  # the sizes were compared before
            raise InvalidWheel(
                f"the hash of {member.name!r} is not the one in RECORD",
                where=self._archive.where,
                note=f"expected {row.hash}\n  actual {actual}",
                hint="the wheel was damaged or changed",
            )


def _algorithm(row: RecordRow | None) -> str:
    return "sha256" if row is None else row.hash.partition("=")[0]
