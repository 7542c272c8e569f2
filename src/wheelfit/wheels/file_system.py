"""The file systems of this machine.

This module handles all differences between systems: exchanging two names, renaming onto a file,
copies that share bytes, syncing to the disk, long paths, and files that Windows does not move while
a virus scanner reads them.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from wheelfit.errors import LinkRefused
from wheelfit.wheels.disk_operations import (
    AnyPath,
    DiskOperations,
    closed_at_end,
    is_same_file,
    system_calls,
    with_whole_paths,
)
from wheelfit.wheels.rooted_folder import RootedFolder
from wheelfit.wheels.shared_sync import SharedSync

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from typing import Self

# The limit of Windows is 260 with the terminating zero, and 248 for folders.
_MAX_PATH = 240
_OPENING: Final = threading.Lock()
_SYNCS: Final[dict[int, SharedSync]] = {}  # by number of the device


def extended_path(path: AnyPath) -> str:
    r"""Return a path as Windows takes it even if it is long: ``\\?\C:\…``.

    :param path: absolute, in the notation of Windows, without ``..``.
    """
    text = os.fspath(path)
    if len(text) < _MAX_PATH or text.startswith("\\\\?\\"):
        return text
    text = text.replace("/", "\\")
    if text.startswith("\\\\"):
        return "\\\\?\\UNC" + text[1:]
    return "\\\\?\\" + text


class FileSystem(DiskOperations):
    """The file operations of this machine, for installing and linking wheels.

    Files are read with ``os`` directly, unless the file system itself matters. Those of other
    machines, for tests, derive from this class (`wheelfit.testing.file_systems`).

    Methods of the file system from `limited_to` raise `LinkRefused` for a link.
    """

    allows_batches = True
    """Whether a caller may link and remove the files of an `open_folder` by ``os`` itself."""
    _roots: dict[str, RootedFolder | None] | None = None
    """The folders of `limited_to`, each open from its first use, by path with a separator."""

    @contextmanager
    def limited_to(self, folders: Iterable[str]) -> Iterator[Self]:
        """Return a context manager of the same file system, limited to changes in some folders.

        The folders stay open, and no link in them is followed, even one that is created meanwhile.
        The sources of links and copies may be elsewhere.

        :param folders: absolute, without links; each exists when it is first used.
        """
        limited = copy(self)
        prefixes: list[str] = []  # without folders in another one of them
        for prefix in sorted(os.path.join(folder, "") for folder in folders):  # noqa: PTH118
            if not prefix.startswith(tuple(prefixes)):
                prefixes.append(prefix)
        limited._roots = roots = dict.fromkeys(prefixes)  # noqa: SLF001 - of the same class
        try:
            yield limited
        finally:
            for root in filter(None, roots.values()):
                root.close()
            roots.clear()

    def _locate(self, path: AnyPath) -> tuple[RootedFolder, str]:
        """Return the open folder that contains a path, and the path relative to it.

        :return: the relative path has ``/`` as separator, and is empty for the folder itself.
        :raises PermissionError: no folder contains it.
        """
        path = os.fspath(path)
        for prefix, root in (self._roots or {}).items():
            if path.startswith(prefix) or path + os.sep == prefix:
                name = path[len(prefix) :].replace(os.sep, "/")
                return root or self._open_root(prefix), name
        raise PermissionError(errno.EPERM, "it is outside of the folders that are changed", path)

    def _open_root(self, prefix: str) -> RootedFolder:
        """Open a folder whose path had no links before.

        :raises LinkRefused: it has one now.
        """
        assert self._roots is not None  # noqa: S101 - called by `_locate`
        with _OPENING:  # another thread may open it at this moment
            root = self._roots[prefix]
            if root is None:
                root = RootedFolder(prefix)
                if os.path.join(root.path, "") != prefix:  # noqa: PTH118
                    root.close()
                    raise LinkRefused(
                        "a folder was replaced by a link meanwhile",
                        where=prefix.rstrip(os.sep),
                        hint="try again with a folder that other users cannot write to",
                    )
                self._roots[prefix] = root
        return root

    def resolve(self, name: AnyPath) -> tuple[int | None, str]:
        """Return the descriptor of an open folder with a name in it, or None and a path."""
        if self._roots is None:
            return None, _native(name)
        root, relative = self._locate(name)
        folder, last = root.resolve(relative)
        return folder, _native(last) if folder is None else last

    def path_of(self, name: AnyPath) -> str:
        """Return the path itself."""
        return os.fspath(name)

    def open(self, name: AnyPath, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open a file, or a folder."""
        if self._roots is None:
            return os.open(_native(name), flags, mode)
        root, relative = self._locate(name)
        return root.open(relative, flags, mode)

    def open_folder(self, folder: AnyPath) -> int | None:
        """Open a folder and return its descriptor, for the caller to close.

        :return: None on systems that cannot open folders.
        """
        if self._roots is not None:
            root, name = self._locate(folder)
            return root.open_folder(name)
        return None if sys.platform == "win32" else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def forget(self, name: AnyPath) -> None:
        """Close the open folders below a folder that was moved or removed."""
        if self._roots is not None:
            root, relative = self._locate(name)
            root.forget(relative)

    def exists(self, path: AnyPath) -> bool:
        """Return whether a path exists, a broken link included."""
        return os.path.lexists(_native(path)) if self._roots is None else super().exists(path)

    @with_whole_paths
    def lstat(self, path: AnyPath) -> os.stat_result:
        """Return the status of a file, folder or link; a link is not followed."""
        if self._roots is None:
            return os.lstat(_native(path))
        root, name = self._locate(path)
        return root.lstat(name)

    @with_whole_paths
    def entries(self, folder: AnyPath) -> list[tuple[str, bool]]:
        """Return the sorted names in a folder, each with whether it is a folder and no link."""
        location: int | str = _native(folder)
        if self._roots is not None:
            root, name = self._locate(folder)
            location = root.handle(name)
        with os.scandir(location) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)

    @with_whole_paths
    def device_of(self, folder: AnyPath) -> Hashable:
        """Return the identity of a folder's file system, within which paths can be linked."""
        descriptor = self.open_folder(folder) if self._roots is not None else None
        if descriptor is None:
            path = _native(folder)
            return os.stat(path).st_dev, _mount_of(path)  # noqa: PTH116
        with closed_at_end(descriptor):
            return os.fstat(descriptor).st_dev, _mount_of(descriptor)

    def is_case_sensitive(self, folder: AnyPath) -> bool:
        """Return whether ``a`` and ``A`` are two files in a folder; nothing is written."""
        base = _native(folder)
        # Any existing name with letters shows it: one in the folder, or the folder's own.
        with os.scandir(base) as entries:
            names = (entry.name for entry in entries if entry.name.swapcase() != entry.name)
            candidates = [(base, name) for name in islice(names, 1)]
        candidates.append(os.path.split(os.path.realpath(base)))
        for parent, name in candidates:
            if name.swapcase() != name:
                path, other = os.path.join(parent, name), os.path.join(parent, name.swapcase())  # noqa: PTH118
                return not (os.path.lexists(other) and is_same_file(path, other))
        return sys.platform not in {"win32", "darwin"}

    def make_folders(self, path: str) -> None:
        """Create a folder and its missing parents, if it does not exist."""
        if not self.exists(path):
            self.make_folders(os.path.dirname(path))  # noqa: PTH120
            self.make_folder(path)

    @with_whole_paths
    def set_mode(self, path: AnyPath, mode: int) -> None:
        """Set the permissions of a file or folder; links have none."""
        if self._roots is None or sys.platform == "win32":
            os.chmod(_native(path), mode)  # noqa: PTH101
            return
        try:
            descriptor = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except PermissionError:
            if not hasattr(os, "O_PATH"):
                raise
            # A file that may not be read can be changed through the path of its handle in /proc.
            with closed_at_end(self.open(path, os.O_PATH)) as descriptor:
                if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                    os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101
        else:
            with closed_at_end(descriptor):
                os.fchmod(descriptor, mode)

    def remove_files(self, folder: AnyPath, names: Iterable[str]) -> None:
        """Remove files or links in a folder, quicker than one by one."""
        prefix = os.path.join(folder, "")  # noqa: PTH118
        if self._roots is None or not self.allows_batches or sys.platform == "win32":
            for name in names:
                self.remove_file(prefix + name)
            return
        root, relative = self._locate(folder)
        descriptor = cast("int", root.handle(relative))
        for name in names:
            try:
                os.unlink(name, dir_fd=descriptor)
            except OSError as error:
                error.filename = prefix + name
                raise

    @with_whole_paths
    def exchange(self, path: AnyPath, other: AnyPath) -> bool:
        """Exchange the names of two files or folders in one step.

        :return: False where the system cannot do that; then nothing has changed.
        """
        folder, first = self.resolve(path)
        other_folder, second = self.resolve(other)
        is_done = bool(system_calls().exchange(first, second, folder, other_folder))
        self.forget(path)
        self.forget(other)
        return is_done

    @with_whole_paths
    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Add a second name to a file."""
        folder, name = self.resolve(target)
        if folder is None:
            os.link(_native(source), name)
        else:
            source_folder, source_name = self._resolve_source(source)
            os.link(
                source_name,
                name,
                src_dir_fd=source_folder,
                dst_dir_fd=folder,
                follow_symlinks=False,
            )

    def _resolve_source(self, path: AnyPath) -> tuple[int | None, str]:
        """Return the result of `resolve`, or None and the path if no open folder contains it."""
        if self._roots is not None and os.fspath(path).startswith(tuple(self._roots)):
            return self.resolve(path)
        return None, _native(path)

    @with_whole_paths
    def reflink(self, source: AnyPath, target: AnyPath) -> None:
        """Create a file that shares its space with another until one of them changes."""
        if sys.platform == "linux":
            self._copy(source, target, system_calls().share_bytes)
            return
        import shutil

        self.resolve(target)  # refuses links
        system_calls().clone_file(_native(source), _native(target))
        with suppress(OSError):
            shutil.copystat(_native(source), _native(target))

    @with_whole_paths
    def copy(self, source: AnyPath, target: AnyPath) -> None:
        """Create a file with the content, permissions and times of another."""
        if sys.platform == "win32":
            import shutil

            self.resolve(target)  # refuses links
            shutil.copy2(_native(source), _native(target), follow_symlinks=False)
            return
        folder, name = self._resolve_source(source)
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(status.st_mode):
            link_target = os.readlink(name, dir_fd=folder)
            new_folder, new_name = self.resolve(target)
            os.symlink(link_target, new_name, dir_fd=new_folder)
        else:
            self._copy(source, target, _copy_bytes)

    def _copy(
        self, source: AnyPath, target: AnyPath, copy_content: Callable[[int, int], None]
    ) -> None:
        """Create a file with the permissions and times of another.

        :param copy_content: copies from the first descriptor to the second.
        """
        folder, name = self._resolve_source(source)
        with closed_at_end(open_source(name, folder)) as source_fd:
            status = os.fstat(source_fd)
            mode = stat.S_IMODE(status.st_mode)
            new_folder, new_name = self.resolve(target)
            with new_file(new_name, new_folder, mode) as target_fd:
                copy_content(source_fd, target_fd)
                os.utime(target_fd, ns=(status.st_atime_ns, status.st_mtime_ns))
                os.fchmod(target_fd, mode)

    def sync_tree(self, folder: AnyPath) -> None:
        """Wait until everything in a folder is on the disk, all names and contents."""
        descriptor = self.open_folder(folder)
        if descriptor is not None:
            with closed_at_end(descriptor):
                shared_sync = _SYNCS.setdefault(os.fstat(descriptor).st_dev, SharedSync())
                if shared_sync.wait(partial(system_calls().sync_file_system, descriptor)):
                    return
        for name, is_folder in self.entries(folder):
            path = f"{os.fspath(folder)}{os.sep}{name}"
            if is_folder:
                self.sync_tree(path)
            elif stat.S_ISREG(self.lstat(path).st_mode):
                self.sync_file(path)
        self.sync_folder(folder)


def open_source(name: str, folder: int | None) -> int:
    """Open a file to be copied, which is no link, by its name in an open folder."""
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)


@contextmanager
def new_file(name: str, folder: int | None, mode: int) -> Iterator[int]:
    """Open a new file by its name in an open folder; on an error nothing is left of it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with closed_at_end(os.open(name, flags, mode, dir_fd=folder)) as descriptor:
        try:
            yield descriptor
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise


NATIVE: Final = FileSystem()
"""The file systems of this machine."""


def _native(path: AnyPath) -> str:
    return extended_path(path) if sys.platform == "win32" else os.fspath(path)


def _mount_of(folder: str | int) -> bytes:
    """Return the identity of a folder's mount; a file system may have several mounts (Linux)."""
    if sys.platform != "linux":
        return b""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_PATH) if isinstance(folder, str) else folder
        try:
            with open(f"/proc/self/fdinfo/{descriptor}", "rb") as stream:  # noqa: PTH123
                return next((line for line in stream if line.startswith(b"mnt_id:")), b"")
        finally:
            if descriptor != folder:
                os.close(descriptor)
    return b""


def _copy_bytes(source_fd: int, target_fd: int) -> None:
    import shutil

    with (
        open(source_fd, "rb", closefd=False) as source,
        open(target_fd, "wb", closefd=False) as target,
    ):
        shutil.copyfileobj(source, target, 1 << 20)
