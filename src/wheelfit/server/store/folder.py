"""The bytes of an index in a folder: one file for each content, named after its digest."""

from __future__ import annotations

import errno
import os
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from wheelfit.server.messages import FilePart
from wheelfit.server.store.blobs import (
    FOLDER_MODE,
    Blob,
    check_digest,
    draft_in,
    make_folder,
    remove_drafts_before,
    reporting_disk_errors,
)
from wheelfit.wheels.rooted_folder import RootedFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from wheelfit.server.store.blobs import Draft


_INCOMING = ".incoming"
# Errors of file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class FolderBlobs:
    """A folder of files: `Blobs`.

    A draft is in the same file system and is stored by a link, so that no byte is written twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._incoming = folder / _INCOMING

    def draft(self) -> AbstractContextManager[Draft]:
        """Return a draft."""
        with suppress(OSError):  # making the draft raises it again
            make_folder(self._folder)
        return draft_in(self._incoming)

    def save(self, draft: Draft) -> None:
        """Store the bytes of a draft."""
        path = self._path(draft.sha256)
        subfolder = path.parent.name
        draft.sync()
        # A link could lead out of the storage.
        with reporting_disk_errors(path), RootedFolder(self._folder) as root:
            if not root.exists(subfolder):
                with suppress(FileExistsError):  # another process has just created it
                    root.make_folder(subfolder, FOLDER_MODE)
                root.sync_folder("")
            folder, name = root.resolve(f"{subfolder}/{path.name}")
            try:
                os.link(draft.path, name, dst_dir_fd=folder)
            except FileExistsError:
                pass  # the same bytes, which were on disk before they got the name
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                os.replace(draft.path, name, dst_dir_fd=folder)
            root.sync_folder(subfolder)

    def size(self, sha256: str) -> int | None:
        """Return the number of bytes stored under a digest."""
        path = self._path(sha256)
        with reporting_disk_errors(path), suppress(FileNotFoundError):
            return path.stat().st_size
        return None

    def parts(self, sha256: str, start: int, stop: int) -> Iterable[bytes]:
        """Yield the bytes between two positions."""
        path = self._path(sha256)
        with reporting_disk_errors(path):
            yield from FilePart(path, start, stop)

    def delete(self, sha256: str) -> None:
        """Delete the bytes under a digest."""
        path = self._path(sha256)
        with (
            reporting_disk_errors(path),
            suppress(FileNotFoundError),
            RootedFolder(self._folder) as root,
        ):
            root.remove_file(f"{path.parent.name}/{path.name}")

    def all_blobs(self) -> Iterator[Blob]:
        """Yield all blobs."""
        with reporting_disk_errors(self._folder):
            for path in self._folder.glob("[0-9a-f][0-9a-f]/*"):
                with suppress(ValueError, FileNotFoundError):
                    status = path.stat()
                    yield Blob(check_digest(path.name), status.st_size, status.st_mtime)

    def remove_old_drafts(self, before: float) -> int:
        """Remove drafts of processes that were killed."""
        return remove_drafts_before(self._incoming, before)

    def _path(self, sha256: str) -> Path:
        return self._folder / check_digest(sha256)[:2] / sha256
