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
import threading
from queue import Queue
from typing import TYPE_CHECKING

from wheelfit.errors import InvalidWheel
from wheelfit.values import replace
from wheelfit.wheels.archive import SIGNATURES
from wheelfit.wheels.linking import current_umask, link_or_copy
from wheelfit.wheels.record import DIGEST_SIZES, RecordRow, encode_digest
from wheelfit.wheels.unpacked import TREE, UnpackedFile, UnpackedWheel, write_manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from wheelfit.wheels.archive import WheelArchive
    from wheelfit.wheels.zip_directory import Member

__all__ = ["unpack"]


def __dir__() -> list[str]:
    return __all__


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_LARGE = 2 << 20  # bytes of a member that is worth two threads
_BATCH = 4 << 20  # bytes of members that are taken together
_AHEAD = 8  # pieces that may wait to be written
_MOST_WORKERS = 4
_WRITE_BACK = 8 << 20  # bytes after which the disk is told to begin


def unpack(
    archive: WheelArchive,
    folder: Path,
    *,
    sha256: str | Callable[[], str],
    advance: Callable[[int], None] = lambda _: None,
    known: Callable[[Member, RecordRow], Path | None] = lambda _member, _row: None,
    in_order: bool = False,
) -> UnpackedWheel:
    """Unpack a wheel; after an error what lies in the folder is worthless.

    :param archive: the wheel.
    :param folder: an empty folder.
    :param sha256: of the archive; a function is asked when everything was read.
    :param advance: told of unpacked bytes.
    :param known: names a file that has the very content of a member, to be linked instead.
    :param in_order: begin with what comes first, for an archive that is still arriving.
    :raises InvalidWheel: the wheel is not sound, or not what its RECORD promises.
    :raises OSError: the folder cannot be written.
    """
    promises = _promises(archive)
    tree = folder / TREE
    _make_folders(tree, (member.name for member in archive.members if not member.is_folder))
    umask = current_umask()
    work = _Work(archive, promises, str(tree) + os.sep, umask, advance, known)
    batches = list(_batches(archive.members))
    if not in_order:  # what takes longest begins first
        batches.sort(key=_size, reverse=True)
    work.do(batches)
    digest = sha256 if isinstance(sha256, str) else sha256()
    files = {member.name: work.done[member.name] for member in archive.members if member.name in work.done}
    wheel = UnpackedWheel(
        folder, archive.filename, digest, archive.dist_info, files, umask, archive.where
    )
    write_manifest(wheel)
    return wheel


def _promises(archive: WheelArchive) -> dict[str, RecordRow]:
    """Return the row of every file that needs one; each has a strong hash and the right size."""
    dist_info = archive.dist_info
    rows: dict[str, RecordRow] = {}
    faults = []
    for row in archive.record().rows:
        if row.path in rows:
            faults.append(f"{row.path} is in RECORD twice")
        rows[row.path] = row
    # A row without a file does no harm; there are such in well-known wheels.
    without = {f"{dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    found = {}
    for member in archive.members:
        name = member.name
        if member.is_folder or name in without:
            continue
        promise = rows.get(name)
        if promise is None:
            faults.append(f"{name} is not in RECORD")
        elif promise.hash.partition("=")[0] not in DIGEST_SIZES:
            faults.append(f"{name} has no strong hash in RECORD")
        elif not (promise.size.isascii() and promise.size.isdigit()):
            faults.append(f"{name} has no size in RECORD")
        elif promise.size != str(member.size):
            faults.append(f"{name} has another size than RECORD says")
        elif promise.hash.endswith("="):
            # Padding is not wanted but seen; nothing depends on it.
            found[name] = replace(promise, hash=promise.hash.rstrip("="))
        else:
            found[name] = promise
    if faults:
        raise InvalidWheel(faults[0], where=archive.where, note="\n".join(faults[1:20]) or None)
    return found


def _make_folders(tree: Path, names: Iterable[str]) -> None:
    """Make the folders of all files; names of wheels are never absolute and never lead out."""
    tree.mkdir()
    made = {""}
    for name in names:
        missing = []
        folder = name.rpartition("/")[0]
        while folder not in made:
            made.add(folder)
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        for each in reversed(missing):
            (tree / each).mkdir()


def _batches(members: Iterable[Member]) -> Iterator[list[Member]]:
    """Yield what one worker takes at a time: a large member, or small ones that lie together."""
    batch: list[Member] = []
    for member in members:
        if member.size >= _LARGE:
            yield [member]
            continue
        batch.append(member)
        if _size(batch) >= _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _size(batch: Sequence[Member]) -> int:
    # Opening a file takes as long as unpacking some kilobytes.
    return sum(member.size for member in batch) + 4096 * len(batch)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Stopped(Exception):
    """Another worker failed."""


class _Work:
    """Unpack members with several threads; the first failure ends it all."""

    def __init__(
        self,
        archive: WheelArchive,
        promises: dict[str, RecordRow],
        tree: str,
        umask: int,
        advance: Callable[[int], None],
        known: Callable[[Member, RecordRow], Path | None],
    ) -> None:
        self.done: dict[str, UnpackedFile] = {}
        self._archive = archive
        self._promises = promises
        self._tree = tree
        self._executable = 0o777 & ~umask | 0o111
        self._has_to_allow = umask & 0o111 != 0 and hasattr(os, "fchmod")
        self._advance = advance
        self._known = known
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._processors = _processors()

    def do(self, batches: Sequence[list[Member]]) -> None:
        """Unpack batches, in about their order.

        :raises InvalidWheel: something is not what it should be.
        :raises OSError: something cannot be written.
        """
        left = iter(batches)
        count = min(self._processors, _MOST_WORKERS, len(batches))
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
        is_paired = len(batch) == 1 and batch[0].size >= _LARGE and self._processors > 1
        told = 0
        for member in batch:
            if self._failures:
                raise _Stopped
            if member.is_folder:
                self._archive.data_start(member)  # its local header counts too
                continue
            promise = self._promises.get(member.name)
            path = None if promise is None else self._known(member, promise)
            if path is not None and promise is not None:
                self._archive.data_start(member)
                self._link(path, member, promise)
                told += member.size
            elif is_paired:
                self._write(member, promise, _Pair)
            elif member.size >= _LARGE:
                self._write(member, promise, _Alone)
            else:
                self._write_small(member, promise)
                told += member.size
        self._tell(told)

    def _tell(self, count: int) -> None:
        if count:
            with self._lock:
                self._advance(count)
