"""Several folders that are held open, with look-up of paths below them."""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import TYPE_CHECKING

from wheelfit.errors import LinkInTheWay
from wheelfit.wheels.rooted_folder import RootedFolder

if TYPE_CHECKING:
    from collections.abc import Iterable


class OpenFolders:
    """Folders that are held open, each from its first use.

    :param folders: absolute, without links; one that lies in another is left out.
    """

    def __init__(self, folders: Iterable[str]) -> None:
        starts = {folder.rstrip(os.sep) + os.sep for folder in folders}
        self._open: dict[str, RootedFolder | None] = {
            start: None
            for start in sorted(starts)
            if not any(start != other and start.startswith(other) for other in starts)
        }
        self._opening = threading.Lock()

    def close(self) -> None:
        """Close all folders."""
        for start, folder in self._open.items():
            if folder is not None:
                folder.close()
                self._open[start] = None

    def has(self, path: str) -> bool:
        """Return whether a path lies in one of the folders."""
        return any(path.startswith(start) for start in self._open)

    def within(self, path: str) -> tuple[RootedFolder, str]:
        """Return the folder in which a path lies, and its name there; empty for the folder."""
        for start, folder in self._open.items():
            if path.startswith(start) or path + os.sep == start:
                name = path[len(start) :]
                if os.sep != "/":
                    name = name.replace(os.sep, "/")
                return folder or self._opened(start), name
        raise PermissionError(errno.EPERM, "it lies outside the folders that are changed", path)

    def at(self, path: str) -> tuple[int | None, str]:
        """Return a name and the number of the open folder it is in, or None and a path."""
        folder, name = self.within(path)
        return folder.at(name)

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """Open a file."""
        folder, name = self.within(path)
        return folder.open(name, flags, mode)

    def open_folder(self, path: str) -> int | None:
        """Open a folder; None where folders cannot be opened, after a look for links."""
        folder, name = self.within(path)
        if sys.platform == "win32":
            folder.at(f"{name}/x" if name else "x")
            return None
        return folder.open_folder(name)

    def _opened(self, start: str) -> RootedFolder:
        with self._opening:  # another thread may open it at this moment
            folder = self._open[start]
            if folder is None:
                folder = self._open[start] = _open_without_links(start.rstrip(os.sep) or start)
        return folder


def _open_without_links(path: str) -> RootedFolder:
    """Open a folder whose path had no links, and refuse it if there is one by now."""
    folder = RootedFolder(path)
    if folder.path != path:
        folder.close()
        raise LinkInTheWay(
            "a link took the place of a folder while it was looked at",
            where=path,
            hint="try again, where nobody else can write",
        )
    return folder
