"""Detect folders of a wheel that an environment already has as links to the same files.

If a folder of an environment has exactly the files that would be linked into it, it is left alone:
the result of the installation is the same, without tens of thousands of new links.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wheelfit.installation.steps import FolderListing
from wheelfit.wheels.unpacked import TREE

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from wheelfit.installation.checked_wheel import CheckedWheel, WheelFolder
    from wheelfit.installation.steps import FolderReader


def unchanged_folders(
    wheel: CheckedWheel,
    roots: Mapping[str, str],
    removed_files: Mapping[str, Collection[str]],
    read_folder: FolderReader,
) -> dict[str, str]:
    """Return the folders of a wheel whose files are installed already, as links.

    A folder that no other distribution uses is replaced as a whole. So it counts only if everything
    in it is unchanged: other processes never see a mixture of old and new.

    :param removed_files: by folder, an absolute path, the names of files to remove.
    :return: by folder of the wheel, the absolute path of the installed one.
    """
    new_folders: dict[str, WheelFolder] = {}
    for part in wheel.parts:
        folder = os.path.normpath(os.path.join(roots[part.scheme], part.path))  # noqa: PTH118
        if new_folders.setdefault(folder, part) is not part:
            return {}  # rare: two folders of the wheel have one destination
    return _Comparison(
        wheel, new_folders, removed_files, read_folder, frozenset(roots.values())
    ).unchanged()


class _Comparison:
    """A comparison of a wheel's folders with those of an environment."""

    def __init__(
        self,
        wheel: CheckedWheel,
        new_folders: Mapping[str, WheelFolder],
        removed_files: Mapping[str, Collection[str]],
        read_folder: FolderReader,
        roots: frozenset[str],
    ) -> None:
        self._wheel = wheel.unpacked
        self._new_folders = new_folders
        self._removed_files = removed_files
        self._read_folder = read_folder
        self._inodes: Sequence[int] | None = None
        self._device = 0
        self._names_in: dict[str, set[str]] = {}
        """The names of the wheel's folders in each folder that contains some, from the roots down.
        """
        self._roots = roots
        for folder in new_folders:
            path = folder
            while path not in roots:
                path, name = os.path.split(path)
                names = self._names_in.setdefault(path, set())
                if name in names:
                    break  # the folders above it were added with it
                names.add(name)

    def unchanged(self) -> dict[str, str]:
        """Return the unchanged folders, as in `unchanged_folders`."""
        unchanged: dict[str, str] = {}
        pending = [*self._roots]
        for folder in pending:
            for name in self._wheel_folders_in(folder) & self._listing(folder).folders:
                path = os.path.join(folder, name)  # noqa: PTH118
                if self._is_same(path):
                    unchanged |= {
                        part.source: part_folder
                        for part_folder, part in self._new_folders.items()
                        if part_folder == path or part_folder.startswith(path + os.sep)
                    }
                elif not self._is_removed_whole(path):
                    pending.append(path)  # others have files in it: its subfolders are examined
        return unchanged

    def _listing(self, folder: str) -> FolderListing:
        return self._read_folder(folder) or FolderListing()

    def _wheel_folders_in(self, folder: str) -> set[str]:
        return self._names_in.get(folder, set())

    def _is_removed_whole(self, folder: str) -> bool:
        """Return whether all of a folder is removed, so that a new folder may replace it."""
        listing = self._listing(folder)
        if folder in self._roots:
            return False
        return listing.files.keys() <= set(self._removed_files.get(folder, ())) and all(
            self._is_removed_whole(os.path.join(folder, name))  # noqa: PTH118
            for name in listing.folders
        )

    def _is_same(self, folder: str) -> bool:
        """Return whether a folder equals the wheel's, and all its files are of the old version."""
        listing, part = self._listing(folder), self._new_folders.get(folder)
        names, folders = listing.files.keys(), listing.folders
        # A folder with bytecode that was compiled since differs from the wheel's.
        if folders != self._wheel_folders_in(folder):
            return False
        if part is None:
            if names:
                return False
        elif not (
            names == set(part.names)
            and names == set(self._removed_files.get(folder, ()))
            and self._is_linked(folder, listing, part)
        ):
            return False
        inner = [f"{folder}{os.sep}{name}" for name in folders]
        return all(
            self._listing(subfolder).device == listing.device and self._is_same(subfolder)
            for subfolder in inner
        )

    def _is_linked(self, folder: str, listing: FolderListing, part: WheelFolder) -> bool:
        """Return whether the files of a folder are the unpacked ones of the wheel, by inode."""
        if self._inodes is None:
            # Their content was verified when they were found in the cache.
            self._inodes = self._wheel.inodes or self._wheel.inspect().inodes
            self._device = os.stat(self._wheel.folder / TREE).st_dev  # noqa: PTH116
        if not self._inodes:
            return False
        inodes = [self._inodes[index] for index in part.indexes]
        if inodes != list(map(listing.files.get, part.names)):
            return False
        # In an overlay file system, inodes in a listing may differ from those of the files.
        status = os.lstat(f"{folder}{os.sep}{part.names[0]}")
        return (status.st_dev, status.st_ino) == (self._device, inodes[0])
