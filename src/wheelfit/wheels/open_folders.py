"""Folders that stay open, so that paths below them are resolved without following links."""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import TYPE_CHECKING

from wheelfit.errors import LinkRefused
from wheelfit.wheels.rooted_folder import RootedFolder

if TYPE_CHECKING:
    from collections.abc import Iterable


class OpenFolders:
    """Folders that stay open, each from its first use.

    :param folders: absolute paths without links; a folder in another one of them is ignored.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        prefixes = {folder.rstrip(os.sep) + os.sep for folder in folders}
        self._folders: dict[str, RootedFolder | None] = {
            prefix: None
            for prefix in sorted(prefixes)
            if not any(prefix != other and prefix.startswith(other) for other in prefixes)
        }
        self._opening = threading.Lock()

    def close(self) -> None:
        """Close all folders."""
        for prefix, folder in self._folders.items():
            if folder is not None:
                folder.close()
                self._folders[prefix] = None

    def contains(self, path: str) -> bool:
        """Return whether a path is in one of the folders."""
        return any(path.startswith(prefix) for prefix in self._folders)

    def locate(self, path: str) -> tuple[RootedFolder, str]:
        """Return the open folder that contains a path, and the path relative to it.

        :return: the relative path has ``/`` as separator, and is empty for the folder itself.
        :raises PermissionError: no folder contains it.
        """
        for prefix, folder in self._folders.items():
            if path.startswith(prefix) or path + os.sep == prefix:
                name = path[len(prefix) :]
                if os.sep != "/":
                    name = name.replace(os.sep, "/")
                return folder or self._open(prefix), name
        raise PermissionError(errno.EPERM, "it is outside of the folders that are changed", path)

    def resolve(self, path: str) -> tuple[int | None, str]:
        """Return the descriptor of an open folder with a name in it, or None and a path."""
        folder, name = self.locate(path)
        return folder.resolve(name)

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """Open a file, and return its descriptor."""
        folder, name = self.locate(path)
        return folder.open(name, flags, mode)

    def open_folder(self, path: str) -> int | None:
        """Open a folder, and return its descriptor.

        :return: None on Windows, where folders cannot be opened; links are refused there too.
        """
        folder, name = self.locate(path)
        if sys.platform == "win32":
            # The name of any file serves to check its folders for links.
            folder.resolve(f"{name}/x" if name else "x")
            return None
        return folder.open_folder(name)

    def _open(self, prefix: str) -> RootedFolder:
        with self._opening:  # another thread may open it at this moment
            folder = self._folders[prefix]
            if folder is None:
                path = prefix.rstrip(os.sep) or prefix
                folder = self._folders[prefix] = _open_without_links(path)
        return folder


def _open_without_links(path: str) -> RootedFolder:
    """Open a folder whose path had no links before.

    :raises LinkRefused: it has one now.
    """
    folder = RootedFolder(path)
    if folder.path != path:
        folder.close()
        raise LinkRefused(
            "a folder was replaced by a link meanwhile",
            where=path,
            hint="try again with a folder that other users cannot write to",
        )
    return folder
