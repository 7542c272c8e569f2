"""Operations on files and folders by name; a subclass decides what names are relative to."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import TypeAlias

AnyPath: TypeAlias = "str | os.PathLike[str]"
"""A path; thousands of them are quicker as plain strings."""
_Result = TypeVar("_Result")
_Method = TypeVar("_Method", bound="Callable[..., Any]")

# Another program has just opened the file, often a virus scanner, and will close it soon.
_SHARING_ERRORS = frozenset({5, 32, 33})  # ERROR_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION
_ATTEMPTS = 10
_FIRST_PAUSE = 0.01
_BINARY = getattr(os, "O_BINARY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY  # O_EXCL follows no link


def with_whole_paths(method: _Method) -> _Method:
    """Replace names relative to an open folder by whole paths in the errors of a method."""

    @wraps(method)
    def call(self: DiskOperations, *args: Any) -> Any:
        try:
            return method(self, *args)
        except OSError as error:
            if not (isinstance(error.filename, str) and os.path.isabs(error.filename)):  # noqa: PTH117
                paths = [self.path_of(arg) for arg in args if isinstance(arg, (str, os.PathLike))]
                error.filename = paths[0]
                if len(paths) > 1:
                    error.filename2 = paths[1]
            raise

    return cast("_Method", call)


class DiskOperations:
    """Reads and changes of files and folders by names, which a subclass resolves.

    Every method may raise ``OSError``, with whole paths. Methods that create or move a path raise
    ``FileExistsError`` if it exists.
    """

    # --- defined by subclasses ---

    def resolve(self, name: AnyPath) -> tuple[int | None, str]:
        """Return the descriptor of an open folder with a name in it, or None and a path."""
        raise NotImplementedError

    def path_of(self, name: AnyPath) -> str:
        """Return the full path of a name, for messages."""
        raise NotImplementedError

    def open(self, name: AnyPath, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open a file, and return its descriptor."""
        raise NotImplementedError

    def open_folder(self, folder: AnyPath) -> int | None:
        """Open a folder, and return its descriptor, for the caller to close.

        :return: None on Windows, where folders cannot be opened.
        """
        raise NotImplementedError

    def forget(self, name: AnyPath) -> None:
        """Close the handles of a folder that was moved or removed, and of those in it."""
        raise NotImplementedError

    def lstat(self, path: AnyPath) -> os.stat_result:
        """Return the status of a file, folder or link; a link is not followed."""
        raise NotImplementedError

    # --- reading ---

    def exists(self, path: AnyPath) -> bool:
        """Return whether a path exists, a broken link included."""
        try:
            self.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @with_whole_paths
    def read(self, path: AnyPath, max_size: int) -> bytes:
        """Return the content of a regular file.

        :param max_size: bytes; of a longer file only the first ones are returned.
        """
        # Opening a pipe would wait for a writer.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY
        descriptor = self.open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        with open(descriptor, "rb") as file:  # noqa: PTH123 - by its descriptor
            return file.read(max_size)

    # --- changing ---

    @with_whole_paths
    def make_folder(self, path: AnyPath, mode: int = 0o777) -> None:
        """Create a folder with some permissions, less the umask."""
        folder, name = self.resolve(path)
        os.mkdir(name, mode, dir_fd=folder)

    @with_whole_paths
    def write(self, path: AnyPath, data: bytes, mode: int = 0o666) -> None:
        """Create a file with some content."""
        folder, name = self.resolve(path)
        with closed_at_end(os.open(name, _NEW, mode, dir_fd=folder)) as descriptor:
            write_all(descriptor, data)

    @with_whole_paths
    def remove_file(self, path: AnyPath) -> None:
        """Remove a file or a link; the target of a link stays."""
        folder, name = self.resolve(path)
        retry_while_in_use(partial(os.unlink, name, dir_fd=folder))

    @with_whole_paths
    def remove_folder(self, path: AnyPath) -> None:
        """Remove an empty folder."""
        folder, name = self.resolve(path)
        retry_while_in_use(partial(os.rmdir, name, dir_fd=folder))
        self.forget(path)

    @with_whole_paths
    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file, link or folder within a file system, never onto an existing name."""
        folder, old_name = self.resolve(source)
        new_folder, new_name = self.resolve(target)
        if not system_calls().move_exclusively(old_name, new_name, folder, new_folder):
            # Windows' own rename refuses by itself; elsewhere a lock keeps other processes of
            # wheelfit away, so a check before the move is enough.
            paths = self.path_of(source), self.path_of(target)
            if self.exists(target) and not _is_same_name(*paths):
                raise FileExistsError(
                    errno.EEXIST, os.strerror(errno.EEXIST), old_name, None, new_name
                )
            retry_while_in_use(
                partial(os.rename, old_name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
            )
        self.forget(source)

    @with_whole_paths
    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file in one step, replacing a file or link at the target."""
        folder, old_name = self.resolve(source)
        new_folder, new_name = self.resolve(target)
        retry_while_in_use(
            partial(os.replace, old_name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
        )

    @with_whole_paths
    def sync_file(self, path: AnyPath) -> None:
        """Wait until the content of a file is on the disk."""
        # Windows flushes only files open for writing.
        flags = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY
        with closed_at_end(self.open(path, flags)) as descriptor:
            _sync(descriptor)

    @with_whole_paths
    def sync_folder(self, folder: AnyPath) -> None:
        """Wait until the names in a folder are on the disk."""
        descriptor = self.open_folder(folder)
        if descriptor is not None:  # NTFS has a journal for names, and folders cannot be opened
            with closed_at_end(descriptor):
                _sync(descriptor)


@contextmanager
def closed_at_end(descriptor: int) -> Iterator[int]:
    """Close an open file or folder when the block ends."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write data completely to an open file."""
    count = os.write(descriptor, data) if data else 0
    while count < len(data):  # a disk that is nearly full may accept fewer bytes
        count += os.write(descriptor, memoryview(data)[count:])


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


def is_same_file(path: str, other: str) -> bool:
    """Return whether two paths lead to one file; False if one does not exist."""
    try:
        return os.path.samefile(path, other)  # noqa: PTH121
    except OSError:
        return False


def _is_same_name(path: str, other: str) -> bool:
    """Return whether two paths are one name in another case, where case is ignored."""
    return path.casefold() == other.casefold() and is_same_file(path, other)


@cache
def system_calls() -> ModuleType:
    """Return the module `wheelfit.wheels.system_calls`, imported when it is first needed."""
    from wheelfit.wheels import system_calls as module  # imports ctypes

    return module
