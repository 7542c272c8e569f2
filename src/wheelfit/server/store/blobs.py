"""The bytes of files, each under the SHA-256 of its content, and drafts of such files."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from wheelfit.errors import LinkRefused, StorageUnavailable
from wheelfit.wheels.atomic_write import write_all
from wheelfit_runtime.errors import os_reason
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Literal

    from wheelfit.server.backing_services import Dependency


_Item = TypeVar("_Item")
_DIGEST = pattern(r"[0-9a-f]{64}")
_ENDING = ".part"
FILE_MODE = 0o640
"""Permissions of a file of an index, at most."""
FOLDER_MODE = 0o750
_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
# Errors of network file systems.
_NO_ANSWER = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ESTALE})
_PROBE_DATA = bytes(1 << 16)


@dataclass(frozen=True, slots=True)
class Blob:
    """The record of stored bytes."""

    sha256: str
    """SHA-256 of the content, in lower-case hexadecimal digits, by which it is found."""
    size: int
    modified: float
    """The time it was stored, in seconds of the system's clock."""


class Draft:
    """Incoming bytes in a temporary file, hashed as they pass.

    :param path: of the file, which must not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        """The file; readable at any time, whole when all was written."""
        self.size = 0
        """Bytes so far."""
        self._sha256 = hashlib.sha256()
        self._blake2 = hashlib.blake2b(digest_size=32)
        # Independent of the umask, only the operator and the group read files of an index.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, FILE_MODE)
        self._file = open(descriptor, "wb", buffering=0)  # noqa: PTH123, SIM115 - with its mode

    def write(self, data: bytes) -> None:
        """Write the next bytes."""
        with reporting_disk_errors("an upload"):
            write_all(self._file, data)
        self._sha256.update(data)
        self._blake2.update(data)
        self.size += len(data)

    @property
    def sha256(self) -> str:
        """The digest of the bytes so far, hexadecimal."""
        return self._sha256.hexdigest()

    @property
    def blake2_256(self) -> str:
        """The BLAKE2b digest of 32 bytes, hexadecimal, as in upload forms."""
        return self._blake2.hexdigest()

    def sync(self) -> None:
        """Wait until the bytes are on the disk."""
        with reporting_disk_errors("an upload"):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close and remove the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class Blobs(Protocol):
    """A storage of bytes under the SHA-256 of their content.

    Every method may be called from several threads, and by several processes and machines on the
    same storage, at once and any number of times. Stored bytes never change. Each may raise
    ``StorageUnavailable``.
    """

    def draft(self) -> AbstractContextManager[Draft]:
        """Return a context with a draft to write bytes into, which is removed at the end.

        The bytes have no digest in the storage before `save`. A process that is killed leaves only
        a file that `remove_old_drafts` removes.
        """

    def save(self, draft: Draft) -> None:
        """Store the bytes of a draft of this storage; durable when this returns, whole or absent.

        Storing existing bytes changes nothing. The draft can be read and stored again.
        """

    def size(self, sha256: str) -> int | None:
        """Return the number of bytes stored under a digest; None if there are none."""

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Yield the bytes between two positions in pieces.

        If they are deleted meanwhile, it ends early, or raises ``StorageUnavailable``.
        """

    def delete(self, sha256: str) -> None:
        """Delete the bytes under a digest, if there are any."""

    def all_blobs(self) -> Iterator[Blob]:
        """Yield all blobs, in no order; blobs added meanwhile may be missing."""

    def remove_old_drafts(self, before: float) -> int:
        """Remove drafts of processes that were killed; return their number.

        :param before: the time before which they were last written, in seconds of the system's
            clock.
        """


@contextmanager
def draft_in(folder: Path) -> Iterator[Draft]:
    """Yield a draft in a folder, which is created if it is missing."""
    with reporting_disk_errors(folder):
        make_folder(folder)
        draft = Draft(folder / f"{secrets.token_hex(16)}{_ENDING}")
    try:
        yield draft
    finally:
        draft.close()


def make_folder(folder: Path) -> None:
    """Create a folder of an index, closed to users outside its group, if it does not exist.

    Missing folders above it are created with the default mode.
    """
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


def probe(blobs: Blobs) -> None:
    """Raise an error if a storage does not answer, or has no space for drafts."""
    with blobs.draft() as draft:
        draft.write(_PROBE_DATA)
    blobs.size("0" * 64)


def remove_drafts_before(folder: Path, before: float) -> int:
    """Remove old drafts of a folder, and return their number; see `Blobs.remove_old_drafts`."""
    count = 0
    with reporting_disk_errors(folder):
        for path in folder.glob(f"*{_ENDING}"):
            with suppress(FileNotFoundError):  # another process tidies too
                if path.stat().st_mtime < before:
                    path.unlink()
                    count += 1
    return count


def check_digest(sha256: str) -> str:
    """Return a digest that can be made part of a path, or raise ``ValueError``."""
    if _DIGEST.fullmatch(sha256) is None:
        raise ValueError(f"no SHA-256 in lower-case hexadecimal digits: {sha256[:80]!r}")
    return sha256


@contextmanager
def reporting_disk_errors(where: Path | str) -> Iterator[None]:
    """Raise errors of the disk in the block as ``StorageUnavailable``."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, str(where)) from error
    except LinkRefused as error:
        raise StorageUnavailable(error.message, where=error.where, hint=error.hint) from error


def disk_error(error: OSError, where: str) -> StorageUnavailable:
    """Return an error of the disk as ``StorageUnavailable``."""
    reason = os_reason(error)
    cause: Literal["unresponsive", "full", ""] = ""
    if error.errno in _NO_ROOM:
        cause = "full"
    elif error.errno in _NO_ANSWER:
        cause = "unresponsive"
    return StorageUnavailable(f"the storage failed: {reason}", where=where, cause=cause)


class GuardedBlobs:
    """A storage used through a `Dependency`: `Blobs` around others."""

    def __init__(self, blobs: Blobs, dependency: Dependency) -> None:
        self._blobs = blobs
        self._dependency = dependency

    @contextmanager
    def draft(self) -> Iterator[Draft]:
        """Return a draft, unless the storage is unresponsive."""
        self._dependency.check()
        with self._blobs.draft() as draft:
            yield draft

    def save(self, draft: Draft) -> None:
        """Store the bytes of a draft."""
        with self._dependency.use(is_long=True):
            self._blobs.save(draft)

    def size(self, sha256: str) -> int | None:
        """Return the number of bytes stored under a digest."""
        with self._dependency.use():
            return self._blobs.size(sha256)

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Yield the bytes between two positions.

        The first piece is read at once, so that an error is raised before a response starts.
        """
        pieces = iter(self._blobs.parts(sha256, start, stop))
        return self._rest(self._next(pieces), pieces)

    def _rest(self, piece: bytes | None, pieces: Iterator[bytes]) -> Iterator[bytes]:
        while piece is not None:
            yield piece
            piece = self._next(pieces)

    def _next(self, items: Iterator[_Item]) -> _Item | None:
        with self._dependency.use():
            return next(items, None)

    def delete(self, sha256: str) -> None:
        """Delete the bytes under a digest."""
        with self._dependency.use():
            self._blobs.delete(sha256)

    def all_blobs(self) -> Iterator[Blob]:
        """Yield all blobs."""
        yield from iter(partial(self._next, self._blobs.all_blobs()), None)

    def remove_old_drafts(self, before: float) -> int:
        """Remove drafts of processes that were killed."""
        return self._blobs.remove_old_drafts(before)
