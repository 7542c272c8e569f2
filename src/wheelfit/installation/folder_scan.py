"""Listings of folders, each of which is read only once."""

from __future__ import annotations

import os
import sys

from wheelfit.installation.steps import FolderListing

# On Windows the inode of an entry needs another system call.
_HAS_INODES = sys.platform != "win32"


class FolderScan:
    """A snapshot of folders, in which later changes are not seen."""

    def __init__(self) -> None:
        self._seen: dict[str, FolderListing | None] = {}

    def __call__(self, folder: str) -> FolderListing | None:
        """Return the entries of a folder; None if the path is not a folder.

        The path may be a link to a folder, but a link among the entries counts as a file.
        """
        if folder not in self._seen:
            self._seen[folder] = _list_folder(folder)
        return self._seen[folder]


def _list_folder(folder: str) -> FolderListing | None:
    folders: set[str] = set()
    files: dict[str, int] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                # Entries are not opened: one may be gone by now, or on a dead network drive.
                if entry.is_dir(follow_symlinks=False):
                    folders.add(entry.name)
                else:
                    files[entry.name] = entry.inode() if _HAS_INODES else 0
        return FolderListing(os.stat(folder).st_dev, folders, files)  # noqa: PTH116
    except OSError:
        return None
