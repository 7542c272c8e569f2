"""The interface through which installing and linking change a disk.

Files are read with ``os`` directly, unless the file system itself matters.
`wheelfit.wheels.native_file_system` has the implementation; `wheelfit.testing.file_systems` has
file systems of other machines.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from contextlib import AbstractContextManager
    from typing import TypeAlias

AnyPath: TypeAlias = "str | os.PathLike[str]"
"""A path; thousands of them are quicker as plain strings."""


def make_with_parents(files: FileSystem, folder: str) -> None:
    """Create a folder and its missing parents."""
    if not files.exists(folder):
        make_with_parents(files, os.path.dirname(folder))  # noqa: PTH120
        files.make_folder(folder)


class FileSystem(Protocol):
    """The operations on a disk: reads and changes.

    Every method may raise ``OSError``. Methods that create or move a path raise ``FileExistsError``
    if it exists. Methods of the file system from `limited_to` raise `LinkRefused` for a link.
    """

    def limited_to(self, folders: Iterable[str]) -> AbstractContextManager[FileSystem]:
        """Return a context manager of the same file system, limited to changes in some folders.

        The folders stay open, and no link in them is followed, even one that is created meanwhile.
        The sources of links and copies may be elsewhere.

        :param folders: absolute, without links; each exists when it is first used.
        """

    def exists(self, path: AnyPath) -> bool:
        """Return whether a path exists, a broken link included."""

    def lstat(self, path: AnyPath) -> os.stat_result:
        """Return the status of a file, folder or link; a link is not followed."""

    def entries(self, folder: AnyPath) -> list[tuple[str, bool]]:
        """Return the sorted names in a folder, each with whether it is a folder and no link."""

    def read(self, path: AnyPath, max_size: int) -> bytes:
        """Return the content of a regular file, or its first bytes."""

    def device_of(self, folder: AnyPath) -> Hashable:
        """Return the identity of a folder's file system, within which paths can be linked."""

    def is_case_sensitive(self, folder: AnyPath) -> bool:
        """Return whether ``a`` and ``A`` are two files in a folder; nothing is written."""

    allows_batches: bool
    """Whether a caller may link and remove the files of an `open_folder` by ``os`` itself."""

    def open_folder(self, folder: AnyPath) -> int | None:
        """Open a folder and return its descriptor, for the caller to close.

        :return: None on systems that cannot open folders.
        """

    def make_folder(self, path: AnyPath, mode: int = 0o777) -> None:
        """Create a folder with some permissions, less the umask."""

    def write(self, path: AnyPath, data: bytes) -> None:
        """Create a file with some content."""

    def set_mode(self, path: AnyPath, mode: int) -> None:
        """Set the permissions of a file or folder; links have none."""

    def remove_file(self, path: AnyPath) -> None:
        """Remove a file or a link."""

    def remove_files(self, folder: AnyPath, names: Iterable[str]) -> None:
        """Remove files or links in a folder, quicker than one by one."""

    def remove_folder(self, path: AnyPath) -> None:
        """Remove an empty folder."""

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file or folder within a file system, never onto something."""

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file in one step, replacing a file at the target."""

    def exchange(self, path: AnyPath, other: AnyPath) -> bool:
        """Exchange the names of two files or folders in one step.

        :return: False where the system cannot do that; then nothing has changed.
        """

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Add a second name to a file."""

    def reflink(self, source: AnyPath, target: AnyPath) -> None:
        """Create a file that shares its space with another until one of them changes."""

    def copy(self, source: AnyPath, target: AnyPath) -> None:
        """Create a file with the content, permissions and times of another."""

    def sync_file(self, path: AnyPath) -> None:
        """Wait until the content of a file is on the disk."""

    def sync_folder(self, path: AnyPath) -> None:
        """Wait until the names in a folder are on the disk."""

    def sync_tree(self, folder: AnyPath) -> None:
        """Wait until everything in a folder is on the disk, all names and contents."""
