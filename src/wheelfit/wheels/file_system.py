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
import time
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from wheelfit.wheels.rooted_folder import closed_at_end, read_regular, system_calls, write_all
from wheelfit.wheels.shared_sync import SharedSync

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from typing import Self, TypeAlias

    from wheelfit.wheels.open_folders import OpenFolders

AnyPath: TypeAlias = "str | os.PathLike[str]"
"""A path; thousands of them are quicker as plain strings."""
_Result = TypeVar("_Result")
_Method = TypeVar("_Method", bound="Callable[..., Any]")

# Another program has just opened the file, often a virus scanner, and will close it soon.
_SHARING_ERRORS = frozenset({5, 32, 33})  # ERROR_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION
_ATTEMPTS = 10
_FIRST_PAUSE = 0.01
# The limit of Windows is 260 with the terminating zero, and 248 for folders.
_MAX_PATH = 240
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


def _with_whole_paths(method: _Method) -> _Method:
    """Replace names relative to an open folder by whole paths in the errors of a method."""

    @wraps(method)
    def call(self: FileSystem, *args: Any) -> Any:
        try:
            return method(self, *args)
        except OSError as error:
            filename = error.filename if isinstance(error.filename, str) else ""
            if self._roots is not None and not os.path.isabs(filename):  # noqa: PTH117
                paths = [os.fspath(arg) for arg in args if isinstance(arg, (str, os.PathLike))]
                error.filename = paths[0]
                if len(paths) > 1:
                    error.filename2 = paths[1]
            raise

    return cast("_Method", call)


class FileSystem:
    """The disk of this machine, for all that installing and linking change.

    Files are read with ``os`` directly, unless the file system itself matters. Those of other
    machines, for tests, derive from this class (`wheelfit.testing.file_systems`).

    Every method may raise ``OSError``. Methods that create or move a path raise ``FileExistsError``
    if it exists. Methods of the file system from `limited_to` raise `LinkRefused` for a link.
    """

    allows_batches = True
    """Whether a caller may link and remove the files of an `open_folder` by ``os`` itself."""
    _roots: OpenFolders | None = None

    @contextmanager
    def limited_to(self, folders: Iterable[str]) -> Iterator[Self]:
        """Return a context manager of the same file system, limited to changes in some folders.

        The folders stay open, and no link in them is followed, even one that is created meanwhile.
        The sources of links and copies may be elsewhere.

        :param folders: absolute, without links; each exists when it is first used.
        """
        from wheelfit.wheels.open_folders import OpenFolders

        limited = copy(self)
        limited._roots = roots = OpenFolders(folders)  # noqa: SLF001 - of the same class
        try:
            yield limited
        finally:
            roots.close()

    def _resolve(self, path: AnyPath) -> tuple[int | None, str]:
        """Return the descriptor of an open folder with a name in it, or None and a path."""
        if self._roots is None:
            return None, _native(path)
        folder, name = self._roots.resolve(os.fspath(path))
        return folder, _native(name) if folder is None else name

    def _open(self, path: AnyPath, flags: int, mode: int = 0o666) -> int:
        """Open a file, or a folder."""
        if self._roots is None:
            return os.open(_native(path), flags, mode)
        return self._roots.open(os.fspath(path), flags, mode)

    def exists(self, path: AnyPath) -> bool:
        """Return whether a path exists, a broken link included."""
        if self._roots is None:
            return os.path.lexists(_native(path))
        try:
            self.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @_with_whole_paths
    def lstat(self, path: AnyPath) -> os.stat_result:
        """Return the status of a file, folder or link; a link is not followed."""
        if self._roots is None:
            return os.lstat(_native(path))
        root, name = self._roots.locate(os.fspath(path))
        return root.lstat(name)

    @_with_whole_paths
    def entries(self, folder: AnyPath) -> list[tuple[str, bool]]:
        """Return the sorted names in a folder, each with whether it is a folder and no link."""
        location: int | str = _native(folder)
        if self._roots is not None:
            root, name = self._roots.locate(os.fspath(folder))
            location = root.handle(name)
        with os.scandir(location) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)

    @_with_whole_paths
    def read(self, path: AnyPath, max_size: int) -> bytes:
        """Return the content of a regular file, or its first bytes."""
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        return read_regular(self._open(path, flags), max_size)

    @_with_whole_paths
    def device_of(self, folder: AnyPath) -> Hashable:
        """Return the identity of a folder's file system, within which paths can be linked."""
        descriptor = self._roots.open_folder(os.fspath(folder)) if self._roots is not None else None
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
                return not (os.path.lexists(other) and _is_same_file(path, other))
        return sys.platform not in {"win32", "darwin"}

    def open_folder(self, folder: AnyPath) -> int | None:
        """Open a folder and return its descriptor, for the caller to close.

        :return: None on systems that cannot open folders.
        """
        if self._roots is not None:
            return self._roots.open_folder(os.fspath(folder))
        return None if sys.platform == "win32" else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    @_with_whole_paths
    def make_folder(self, path: AnyPath, mode: int = 0o777) -> None:
        """Create a folder with some permissions, less the umask."""
        folder, name = self._resolve(path)
        os.mkdir(name, mode, dir_fd=folder)

    def make_folders(self, path: str) -> None:
        """Create a folder and its missing parents, if it does not exist."""
        if not self.exists(path):
            self.make_folders(os.path.dirname(path))  # noqa: PTH120
            self.make_folder(path)

    @_with_whole_paths
    def write(self, path: AnyPath, data: bytes) -> None:
        """Create a file with some content."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        folder, name = self._resolve(path)
        with closed_at_end(os.open(name, flags, 0o666, dir_fd=folder)) as descriptor:
            write_all(descriptor, data)

    @_with_whole_paths
    def set_mode(self, path: AnyPath, mode: int) -> None:
        """Set the permissions of a file or folder; links have none."""
        if self._roots is None or sys.platform == "win32":
            os.chmod(_native(path), mode)  # noqa: PTH101
            return
        try:
            descriptor = self._open(path, os.O_RDONLY | os.O_NONBLOCK)
        except PermissionError:
            if not hasattr(os, "O_PATH"):
                raise
            # A file that may not be read can be changed through the path of its handle in /proc.
            with closed_at_end(self._open(path, os.O_PATH)) as descriptor:
                if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                    os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101
        else:
            with closed_at_end(descriptor):
                os.fchmod(descriptor, mode)

    @_with_whole_paths
    def remove_file(self, path: AnyPath) -> None:
        """Remove a file or a link."""
        folder, name = self._resolve(path)
        if sys.platform == "win32":
            retry_while_in_use(lambda: os.unlink(name))  # noqa: PTH108
        else:
            os.unlink(name, dir_fd=folder)

    def remove_files(self, folder: AnyPath, names: Iterable[str]) -> None:
        """Remove files or links in a folder, quicker than one by one."""
        prefix = os.path.join(folder, "")  # noqa: PTH118
        if self._roots is None or not self.allows_batches or sys.platform == "win32":
            for name in names:
                self.remove_file(prefix + name)
            return
        root, relative = self._roots.locate(os.fspath(folder))
        descriptor = cast("int", root.handle(relative))
        for name in names:
            try:
                os.unlink(name, dir_fd=descriptor)
            except OSError as error:
                error.filename = prefix + name
                raise

    @_with_whole_paths
    def remove_folder(self, path: AnyPath) -> None:
        """Remove an empty folder."""
        folder, name = self._resolve(path)
        if sys.platform == "win32":
            retry_while_in_use(lambda: os.rmdir(name))  # noqa: PTH106
        else:
            os.rmdir(name, dir_fd=folder)
        self._forget(path)

    @_with_whole_paths
    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file or folder within a file system, never onto something."""
        folder, old_name = self._resolve(source)
        new_folder, new_name = self._resolve(target)
        if not system_calls().move_exclusively(old_name, new_name, folder, new_folder):
            # Windows' own rename refuses by itself; elsewhere the lock on the environment keeps
            # other processes away, so a check before the move is enough.
            if self.exists(target) and not _is_same_name(os.fspath(source), os.fspath(target)):
                raise FileExistsError(
                    errno.EEXIST, os.strerror(errno.EEXIST), old_name, None, new_name
                )
            retry_while_in_use(
                partial(os.rename, old_name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
            )
        self._forget(source)

    @_with_whole_paths
    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file in one step, replacing a file at the target."""
        folder, old_name = self._resolve(source)
        new_folder, new_name = self._resolve(target)
        retry_while_in_use(
            partial(os.replace, old_name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
        )

    @_with_whole_paths
    def exchange(self, path: AnyPath, other: AnyPath) -> bool:
        """Exchange the names of two files or folders in one step.

        :return: False where the system cannot do that; then nothing has changed.
        """
        folder, first = self._resolve(path)
        other_folder, second = self._resolve(other)
        is_done = bool(system_calls().exchange(first, second, folder, other_folder))
        self._forget(path)
        self._forget(other)
        return is_done

    def _forget(self, folder: AnyPath) -> None:
        """Close the open folders below a folder that was moved or removed."""
        if self._roots is not None:
            root, name = self._roots.locate(os.fspath(folder))
            root.forget(name)

    @_with_whole_paths
    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Add a second name to a file."""
        folder, name = self._resolve(target)
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
        """Return the result of `_resolve`, or None and the path if no open folder contains it."""
        if self._roots is not None and self._roots.contains(os.fspath(path)):
            return self._resolve(path)
        return None, _native(path)

    @_with_whole_paths
    def reflink(self, source: AnyPath, target: AnyPath) -> None:
        """Create a file that shares its space with another until one of them changes."""
        if sys.platform == "linux":
            self._copy(source, target, system_calls().share_bytes)
            return
        import shutil

        self._resolve(target)  # refuses links
        system_calls().clone_file(_native(source), _native(target))
        with suppress(OSError):
            shutil.copystat(_native(source), _native(target))

    @_with_whole_paths
    def copy(self, source: AnyPath, target: AnyPath) -> None:
        """Create a file with the content, permissions and times of another."""
        if sys.platform == "win32":
            import shutil

            self._resolve(target)  # refuses links
            shutil.copy2(_native(source), _native(target), follow_symlinks=False)
            return
        folder, name = self._resolve_source(source)
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(status.st_mode):
            link_target = os.readlink(name, dir_fd=folder)
            new_folder, new_name = self._resolve(target)
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
            new_folder, new_name = self._resolve(target)
            with new_file(new_name, new_folder, mode) as target_fd:
                copy_content(source_fd, target_fd)
                os.utime(target_fd, ns=(status.st_atime_ns, status.st_mtime_ns))
                os.fchmod(target_fd, mode)

    @_with_whole_paths
    def sync_file(self, path: AnyPath) -> None:
        """Wait until the content of a file is on the disk."""
        # Windows flushes only files open for writing.
        flags = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY
        with closed_at_end(self._open(path, flags)) as descriptor:
            _sync(descriptor)

    @_with_whole_paths
    def sync_folder(self, path: AnyPath) -> None:
        """Wait until the names in a folder are on the disk."""
        descriptor = self.open_folder(path)
        if descriptor is not None:  # NTFS has a journal for names, and folders cannot be opened
            with closed_at_end(descriptor):
                _sync(descriptor)

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


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl  # not on Windows

        with suppress(OSError):  # some file systems do not support it
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def retry_while_in_use(step: Callable[[], _Result], first_pause: float = _FIRST_PAUSE) -> _Result:
    """Call a function again while another program has the file open, for about five seconds.

    :param first_pause: seconds before the second attempt; each next pause is twice as long.
    :raises OSError: from the last call, or for another reason.
    """
    pause = first_pause
    for _ in range(_ATTEMPTS - 1):
        try:
            return step()
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _SHARING_ERRORS:
                raise
        time.sleep(pause)
        pause *= 2
    return step()


def _is_same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121
    except OSError:
        return False


def _is_same_name(path: str, other: str) -> bool:
    """Return whether two paths are one name in another case, where case is ignored."""
    return path.casefold() == other.casefold() and _is_same_file(path, other)
