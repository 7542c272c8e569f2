"""Bytes in a folder: one file for each content, named after its digest."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit.server.messages import FilePart
from wheelfit.server.store.blobs import (
    Blob,
    check_digest,
    draft_in,
    make_folder,
    storage_error,
    tidy_drafts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from wheelfit.server.store.blobs import Draft


__all__ = ["FolderBlobs"]


def __dir__() -> list[str]:
    return __all__


_INCOMING = ".incoming"
# What file systems without hard links say.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class FolderBlobs:
    """Keep bytes in the files of a folder: `Blobs`.

    A draft lies in the same file system, so that keeping it is giving it a second name: no byte
    is written twice.

    :param folder: made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._incoming = folder / _INCOMING

    def draft(self) -> AbstractContextManager[Draft]:
        """Return something to write bytes into."""
        with suppress(OSError):  # which the draft tells
            make_folder(self._folder)
        return draft_in(self._incoming)

    def keep(self, draft: Draft) -> None:
        """Keep the bytes of a draft."""
        path = self._path(draft.sha256)
        draft.sync()
        try:
            if not path.parent.is_dir():
                make_folder(self._folder)
                make_folder(path.parent)
                _sync_folder(self._folder)
            try:
                path.hardlink_to(draft.path)
            except FileExistsError:
                pass  # the same bytes, and on the disk: they got the name after that
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                draft.path.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            raise storage_error(error, str(path)) from error

    def size(self, sha256: str) -> int | None:
        """Return how many bytes are kept under a digest."""
        path = self._path(sha256)
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, str(path)) from error

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Give the pieces of what lies between two positions."""
        path = self._path(sha256)
        try:
            yield from FilePart(path, start, stop)
        except OSError as error:
            raise storage_error(error, str(path)) from error

    def delete(self, sha256: str) -> None:
        """Forget what is kept under a digest."""
        path = self._path(sha256)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(error, str(path)) from error

    def stored(self) -> Iterator[Blob]:
        """Yield everything that is kept."""
        try:
            for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
                with suppress(ValueError, FileNotFoundError):
                    status = path.stat()
                    yield Blob(check_digest(path.name), status.st_size, status.st_mtime)
        except OSError as error:
            raise storage_error(error, str(self._folder)) from error

    def tidy(self, before: float) -> int:
        """Remove drafts of processes that were killed."""
        return tidy_drafts(self._incoming, before)

    def _path(self, sha256: str) -> Path:
        return self._folder / check_digest(sha256)[:2] / sha256


def _sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return  # Windows cannot open folders, and does not need it
    try:
        os.fsync(number)
    finally:
        os.close(number)
