"""Unpack a wheel into a folder, and verify every byte on the way.

What RECORD promises is held against the central directory first, so that most of what can be
wrong is found before anything is written; the contents are compared while they are unpacked.
Nothing but folders and regular files is ever created.

Large members are each unpacked by one thread while another one hashes and writes what came
out; small ones are taken in batches, for handing each of ten thousand from thread to thread
would cost more than it saves. The pieces in between are all the memory this takes.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.wheels.archive import SIGNATURES
from wheelfit.wheels.background import BackgroundCalls
from wheelfit.wheels.linking import current_umask
from wheelfit.wheels.native_file_system import NATIVE
from wheelfit.wheels.paths import target_faults
from wheelfit.wheels.record import DIGEST_SIZES, encode_digest, leads_out
from wheelfit.wheels.rooted_folder import write_all
from wheelfit.wheels.unpacked import TREE, FileTable, UnpackedWheel, write_manifest
from wheelfit.wheels.zip_archive import unsound
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from wheelfit.wheels.archive import WheelArchive
    from wheelfit.wheels.file_system import FileSystem
    from wheelfit.wheels.record import RecordRow
    from wheelfit.wheels.zip_directory import Member

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_LARGE = 2 << 20  # bytes of a member that is worth two threads
_BATCH = 4 << 20  # bytes of members that are taken together
_MOST_WORKERS = 4
_WRITE_BACK = 8 << 20  # bytes after which writing to the disk begins


def unpack(
    archive: WheelArchive,
    folder: Path,
    *,
    sha256: str | Callable[[], str],
    advance: Callable[[int], None] = lambda _: None,
    known: Known | None = None,
    in_order: bool = False,
    files: FileSystem = NATIVE,
    is_windows: bool = os.name == "nt",
) -> UnpackedWheel:
    """Unpack a wheel; after an error what lies in the folder is worthless.

    :param sha256: the hash of the archive; a function is called when everything was read.
    :param known: names a file that has the very content of a member, to be linked instead.
        It is not used if it is not as it was.
    :param in_order: begin with what comes first, for an archive that is still arriving.
    :raises InvalidWheel: the wheel is not sound, or not what its RECORD promises, or has names
        that this system cannot have (B-34).
    :raises OSError: the folder cannot be written.
    """
    promises = promised_rows(archive)
    names = (member.name for member in archive.members)
    ignores_case = not files.is_case_sensitive(folder)
    if faults := target_faults(names, is_windows=is_windows, ignores_case=ignores_case):
        raise unsound(faults, archive.where)
    tree = folder / TREE
    _make_folders(tree, (member.name for member in archive.members if not member.is_folder))
    umask = current_umask()
    work = _Work(archive, promises, str(tree) + os.sep, umask, advance)
    rest = archive.members if known is None else work.link(archive.members, known)
    batches = list(_batches(rest))
    if not in_order:  # what takes longest begins first
        batches.sort(key=_size, reverse=True)
    work.do(batches)
    digest = sha256 if isinstance(sha256, str) else sha256()
    members = [member for member in archive.members if not member.is_folder]
    written = [work.done[member.name] for member in members]
    table = FileTable(
        [member.name for member in members],
        [digest for digest, _ in written],
        [member.size for member in members],
        "".join(["x" if member.is_executable else "-" for member in members]),
        [time for _, time in written],
    )
    wheel = UnpackedWheel(
        folder, archive.filename, digest, archive.dist_info, table, umask, archive.where
    )
    write_manifest(wheel)
    return wheel


def promised_rows(archive: WheelArchive) -> dict[str, RecordRow]:
    """Return the row of every file that needs one; each has a strong hash and the right size."""
    dist_info = archive.dist_info
    rows: dict[str, RecordRow] = {}
    faults = []
    for row in archive.record().rows:
        if row.path in rows:
            faults.append(f"{row.path} is in RECORD twice")
        if leads_out(row.path):
            faults.append(f"{row.path} in RECORD leads out of the wheel")
        rows[row.path] = row
    # A row without a file in the wheel does no harm; there are such in well-known wheels.
    without = {f"{dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    promised = {}
    for member in archive.members:
        name = member.name
        if member.is_folder or name in without:
            continue
        promise = rows.get(name)
        if promise is None:
            faults.append(f"{name} is not in RECORD")
        elif promise.hash.partition("=")[0] not in DIGEST_SIZES:
            faults.append(f"{name} has no strong hash in RECORD")
        elif promise.size != str(member.size):
            is_size = promise.size.isascii() and promise.size.isdigit()
            what = "another size than RECORD says" if is_size else "no size in RECORD"
            faults.append(f"{name} has {what}")
        elif promise.hash.endswith("="):
            # Padding is not wanted but seen; nothing depends on it.
            promised[name] = promise._replace(hash=promise.hash.rstrip("="))
        else:
            promised[name] = promise
    if faults:
        raise InvalidWheel(faults[0], where=archive.where, note="\n".join(faults[1:20]) or None)
    return promised


def _make_folders(tree: Path, names: Iterable[str]) -> None:
    """Make the folders of all files; names of wheels are never absolute and never lead out."""
    os.mkdir(tree)  # noqa: PTH102 - there may be thousands
    inside = str(tree) + os.sep
    made = {""}
    for name in names:
        missing = []
        folder = name.rpartition("/")[0]
        while folder not in made:
            made.add(folder)
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        for each in reversed(missing):
            os.mkdir(inside + each)  # noqa: PTH102


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


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class KnownFile(NamedTuple):
    """A file whose content was verified before."""

    path: str
    """Where it lies."""
    written: int
    """Its time of modification then, in nanoseconds."""
    is_header_known: bool = False
    """Whether the local header of the member was compared with its entry before, too."""


Known: TypeAlias = "Callable[[Member, RecordRow], KnownFile | None]"
"""From a member and what RECORD promises of it to a file that has its content, if there is one."""


class _Counter:
    """A count of the wheels that this process unpacks at the moment.

    More threads than processors only take turns: a hundred wheels took 2 to 12 % more processor
    time with them.
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
    """Another worker failed."""


class _Work:
    """The unpacking of members with several threads; the first failure ends it all."""

    def __init__(
        self,
        archive: WheelArchive,
        promises: dict[str, RecordRow],
        tree: str,
        umask: int,
        advance: Callable[[int], None],
    ) -> None:
        self.done: dict[str, tuple[str, int]] = {}
        """The hash of each file as in RECORD, and when it was written."""
        self._archive = archive
        self._promises = promises
        self._tree = tree
        self._plain = 0o666 & ~umask
        self._executable = 0o777 & ~umask | 0o111
        self._has_to_allow = umask & 0o111 != 0 and hasattr(os, "fchmod")
        self._advance = advance
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._processors = _processors()

    def link(self, members: Iterable[Member], known: Known) -> Iterator[Member]:
        """Link what is known, in one thread, and yield the other members.

        Several threads would mostly wait for each other here.
        """
        told = 0
        for member in members:
            promise = self._promises.get(member.name)
            file = known(member, promise) if promise is not None else None
            if promise is None or file is None or not self._link(file, member, promise):
                yield member
                continue
            if not file.is_header_known:
                self._archive.data_start(member)
            told += member.size
            if told >= _BATCH:
                self._tell(told)
                told = 0
        self._tell(told)

    def _link(self, file: KnownFile, member: Member, promise: RecordRow) -> bool:
        """Link a file of another wheel; looked at afterwards, so that no edit is missed."""
        target = self._tree + member.name
        try:
            os.link(file.path, target)
        except OSError:
            return False
        status = os.lstat(target)
        executable = member.is_executable
        mode = stat.S_IFREG | (self._executable if executable else self._plain)
        if (status.st_mode, status.st_size, status.st_mtime_ns) != (
            mode,
            member.size,
            file.written,
        ):
            os.unlink(target)  # noqa: PTH108
            return False
        self.done[member.name] = promise.hash, file.written
        return True

    def do(self, batches: Sequence[list[Member]]) -> None:
        """Unpack batches, in about their order."""
        with _UNPACKING:
            self._do(batches)

    def _do(self, batches: Sequence[list[Member]]) -> None:
        left = iter(batches)
        count = min(self._share(), _MOST_WORKERS, len(batches))
        helpers = [
            threading.Thread(target=self._work, args=(left,), name=f"unpack-{number}")
            for number in range(1, count)
        ]
        for helper in helpers:
            helper.start()
        self._work(left)
        for helper in helpers:
            helper.join()
        if self._failures:
            raise self._failures[0]

    def _share(self) -> int:
        """Return the number of processors for this wheel while others are unpacked as well."""
        return max(1, self._processors // _UNPACKING.count)

    def _work(self, left: Iterator[list[Member]]) -> None:
        try:
            while True:
                with self._lock:
                    batch = next(left, None)
                if batch is None:
                    return
                self._unpack(batch)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._failures.append(error)

    def _unpack(self, batch: Sequence[Member]) -> None:
        if len(batch) == 1 and batch[0].size >= _LARGE:
            self._write_large(batch[0], self._promises.get(batch[0].name))
            return
        told = 0
        for member in batch:
            if member.is_folder:
                self._archive.data_start(member)  # its local header counts too
        for member, data in self._archive.contents(each for each in batch if not each.is_folder):
            if self._failures:
                raise _Stopped
            self._write_small(member, data, self._promises.get(member.name))
            told += member.size
        self._tell(told)

    def _tell(self, count: int) -> None:
        with self._lock:
            self._advance(count)

    def _write_small(self, member: Member, data: bytes, promise: RecordRow | None) -> None:
        """Write a file that is held in memory as a whole."""
        algorithm = _algorithm(promise)
        digest = getattr(hashlib, algorithm)(data).digest()
        actual = f"{algorithm}={encode_digest(digest)}"
        self._check(member, promise, actual)
        number = self._create(member)
        try:
            write_all(number, data)
            written = os.fstat(number).st_mtime_ns
        finally:
            os.close(number)
        self.done[member.name] = actual, written

    def _write_large(self, member: Member, promise: RecordRow | None) -> None:
        """Write a file piece by piece; another thread hashes and writes the unpacked pieces."""
        algorithm = _algorithm(promise)
        seen = hashlib.new(algorithm)
        number = self._create(member)
        begun = count = 0

        def take(piece: bytes) -> None:
            nonlocal begun, count
            seen.update(piece)
            write_all(number, piece)
            count += len(piece)
            if count - begun >= _WRITE_BACK:
                from wheelfit.wheels.system_calls import start_writing  # imports ctypes

                start_writing(number, begun, count - begun)
                begun = count

        try:
            apart = BackgroundCalls(take, "unpack-write") if self._share() > 1 else None
            with apart or nullcontext(take) as hand_over:
                for piece in self._archive.chunks(member.name):
                    if self._failures:
                        raise _Stopped
                    hand_over(piece)
                    self._tell(len(piece))
            written = os.fstat(number).st_mtime_ns
        finally:
            os.close(number)
        actual = f"{algorithm}={encode_digest(seen.digest())}"
        self._check(member, promise, actual)
        self.done[member.name] = actual, written

    def _create(self, member: Member) -> int:
        executable = member.is_executable
        number = os.open(self._tree + member.name, _NEW, 0o777 if executable else 0o666)
        if executable and self._has_to_allow:
            os.fchmod(number, self._executable)
        return number

    def _check(self, member: Member, promise: RecordRow | None, digest: str) -> None:
        """Compare a content with RECORD; without a promise its CRC was all there is to compare."""
        if promise is not None and promise.hash != digest:  # the sizes were compared before
            raise InvalidWheel(
                f"{member.name} is not what RECORD of the wheel promises",
                where=self._archive.where,
                note=f"RECORD says {promise.hash}, {promise.size} bytes\n"
                f"found is    {digest}, {member.size} bytes",
                hint="the wheel was damaged or changed",
            )


def _algorithm(promise: RecordRow | None) -> str:
    return "sha256" if promise is None else promise.hash.partition("=")[0]
