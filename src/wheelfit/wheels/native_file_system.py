"""The file systems of this machine.

All differences between systems are here: whether two names can be exchanged, whether a rename may
replace a file, which copies take no space, how written data survives a power cut, how long a path
may be, and that Windows does not move a file that a virus scanner has just opened.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache, partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from wheelfit.wheels.rooted_folder import closed_at_end, read_regular, write_all
from wheelfit.wheels.shared_sync import SharedSync

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from types import ModuleType
    from typing import Self

    from wheelfit.wheels.file_system import AnyPath
    from wheelfit.wheels.open_folders import OpenFolders

_Result = TypeVar("_Result")
_Method = TypeVar("_Method", bound="Callable[..., Any]")

# Another program has just opened the file, often a virus scanner, and will close it soon.
_SHARING = frozenset({5, 32, 33})  # ERROR_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION
_ATTEMPTS = 10
_FIRST_PAUSE = 0.01
# Windows' own limit is 260 with the ending zero, and 248 for folders.
_LONGEST = 240
_SYNCS: Final[dict[int, SharedSync]] = {}  # by number of the device


def extended(path: AnyPath) -> str:
    r"""Return a path as Windows takes it even if it is long: ``\\?\C:\…``.

    :param path: absolute, in the notation of Windows, without ``..``.
    """
    text = os.fspath(path)
    if len(text) < _LONGEST or text.startswith("\\\\?\\"):
        return text
    text = text.replace("/", "\\")
    if text.startswith("\\\\"):
        return "\\\\?\\UNC" + text[1:]
    return "\\\\?\\" + text


def _with_whole_paths(method: _Method) -> _Method:
    """Put whole paths in the errors of a method, where the system had names in open folders."""

    @wraps(method)
    def call(self: NativeFileSystem, *args: Any) -> Any:
        try:
            return method(self, *args)
        except OSError as error:
            named = error.filename if isinstance(error.filename, str) else ""
            if self._roots is not None and not os.path.isabs(named):  # noqa: PTH117
                paths = [os.fspath(arg) for arg in args if isinstance(arg, (str, os.PathLike))]
                error.filename = paths[0]
                if len(paths) > 1:
                    error.filename2 = paths[1]
            raise

    return cast("_Method", call)


class NativeFileSystem:
    """The disk of this machine."""

    by_folder = True
    """See `FileSystem`."""
    _roots: OpenFolders | None = None

    @contextmanager
    def below(self, folders: Iterable[str]) -> Iterator[Self]:
        """See `FileSystem`."""
        from wheelfit.wheels.open_folders import OpenFolders

        bound = copy(self)
        bound._roots = roots = OpenFolders(folders)  # noqa: SLF001 - of the same class
        try:
            yield bound
        finally:
            roots.close()

    def _at(self, path: AnyPath) -> tuple[int | None, str]:
        """Return a name and the number of the open folder it is in, or None and a path."""
        if self._roots is None:
            return None, _native(path)
        folder, name = self._roots.at(os.fspath(path))
        return folder, _native(name) if folder is None else name

    def _open(self, path: AnyPath, flags: int, mode: int = 0o666) -> int:
        """Open a file, or a folder."""
        if self._roots is None:
            return os.open(_native(path), flags, mode)
        return self._roots.open(os.fspath(path), flags, mode)

    def exists(self, path: AnyPath) -> bool:
        """See `FileSystem`."""
        if self._roots is None:
            return os.path.lexists(_native(path))
        try:
            self.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @_with_whole_paths
    def lstat(self, path: AnyPath) -> os.stat_result:
        """See `FileSystem`."""
        if self._roots is None:
            return os.lstat(_native(path))
        root, name = self._roots.within(os.fspath(path))
        return root.lstat(name)

    @_with_whole_paths
    def entries(self, folder: AnyPath) -> list[tuple[str, bool]]:
        """See `FileSystem`."""
        place: int | str = _native(folder)
        if self._roots is not None:
            root, name = self._roots.within(os.fspath(folder))
            place = root.handle(name)
        with os.scandir(place) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)

    @_with_whole_paths
    def read(self, path: AnyPath, at_most: int) -> bytes:
        """See `FileSystem`."""
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        return read_regular(self._open(path, flags), at_most)

    @_with_whole_paths
    def device_of(self, folder: AnyPath) -> Hashable:
        """See `FileSystem`."""
        number = self._roots.open_folder(os.fspath(folder)) if self._roots is not None else None
        if number is None:
            path = _native(folder)
            return os.stat(path).st_dev, _mount_of(path)  # noqa: PTH116
        with closed_at_end(number):
            return os.fstat(number).st_dev, _mount_of(number)

    def is_case_sensitive(self, folder: AnyPath) -> bool:
        """See `FileSystem`."""
        base = _native(folder)
        # Any name that is there shows it; where there is none, that of the folder itself.
        with os.scandir(base) as entries:
            names = (entry.name for entry in entries if entry.name.swapcase() != entry.name)
            inside = [(base, name) for name in islice(names, 1)]
        for above, name in [*inside, os.path.split(os.path.realpath(base))]:
            if name.swapcase() != name:
                path, other = os.path.join(above, name), os.path.join(above, name.swapcase())  # noqa: PTH118
                return not (os.path.lexists(other) and _is_same(path, other))
        return sys.platform not in {"win32", "darwin"}

    def open_folder(self, folder: AnyPath) -> int | None:
        """See `FileSystem`."""
        if self._roots is not None:
            return self._roots.open_folder(os.fspath(folder))
        return None if sys.platform == "win32" else os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    @_with_whole_paths
    def make_folder(self, path: AnyPath, mode: int = 0o777) -> None:
        """See `FileSystem`."""
        folder, name = self._at(path)
        os.mkdir(name, mode, dir_fd=folder)

    @_with_whole_paths
    def write(self, path: AnyPath, data: bytes) -> None:
        """See `FileSystem`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        folder, name = self._at(path)
        with closed_at_end(os.open(name, flags, 0o666, dir_fd=folder)) as number:
            write_all(number, data)

    @_with_whole_paths
    def set_mode(self, path: AnyPath, mode: int) -> None:
        """See `FileSystem`."""
        if self._roots is None or sys.platform == "win32":
            os.chmod(_native(path), mode)  # noqa: PTH101
            return
        try:
            number = self._open(path, os.O_RDONLY | os.O_NONBLOCK)
        except PermissionError:
            if not hasattr(os, "O_PATH"):
                raise
            # A file that cannot be read yet is reached only through its handle's path in /proc.
            with closed_at_end(self._open(path, os.O_PATH)) as number:
                if not stat.S_ISLNK(os.fstat(number).st_mode):
                    os.chmod(f"/proc/self/fd/{number}", mode)  # noqa: PTH101
        else:
            with closed_at_end(number):
                os.fchmod(number, mode)

    @_with_whole_paths
    def remove_file(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        folder, name = self._at(path)
        if sys.platform == "win32":
            patiently(lambda: os.unlink(name))  # noqa: PTH108
        else:
            os.unlink(name, dir_fd=folder)

    def remove_files(self, folder: AnyPath, names: Iterable[str]) -> None:
        """See `FileSystem`."""
        inside = os.path.join(folder, "")  # noqa: PTH118
        if self._roots is None or not self.by_folder or sys.platform == "win32":
            for name in names:
                self.remove_file(inside + name)
            return
        root, place = self._roots.within(os.fspath(folder))
        number = cast("int", root.handle(place))
        for name in names:
            try:
                os.unlink(name, dir_fd=number)
            except OSError as error:
                error.filename = inside + name
                raise

    @_with_whole_paths
    def remove_folder(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        folder, name = self._at(path)
        if sys.platform == "win32":
            patiently(lambda: os.rmdir(name))  # noqa: PTH106
        else:
            os.rmdir(name, dir_fd=folder)
        self._forget(path)

    @_with_whole_paths
    def move(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        folder, one = self._at(source)
        other_folder, other = self._at(target)
        if not _calls().move_exclusively(one, other, folder, other_folder):
            # Windows' own rename refuses by itself; elsewhere the lock on the environment keeps
            # other processes away, so a check before the move is enough.
            if self.exists(target) and not _is_same_name(os.fspath(source), os.fspath(target)):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), one, None, other)
            patiently(partial(os.rename, one, other, src_dir_fd=folder, dst_dir_fd=other_folder))
        self._forget(source)

    @_with_whole_paths
    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        folder, one = self._at(source)
        other_folder, other = self._at(target)
        patiently(partial(os.replace, one, other, src_dir_fd=folder, dst_dir_fd=other_folder))

    @_with_whole_paths
    def exchange(self, path: AnyPath, other: AnyPath) -> bool:
        """See `FileSystem`."""
        folder, first = self._at(path)
        other_folder, second = self._at(other)
        done = bool(_calls().exchange(first, second, folder, other_folder))
        self._forget(path)
        self._forget(other)
        return done

    def _forget(self, folder: AnyPath) -> None:
        """Close the open folders below a folder that was moved or removed."""
        if self._roots is not None:
            root, name = self._roots.within(os.fspath(folder))
            root.forget(name)

    @_with_whole_paths
    def link(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        folder, name = self._at(target)
        if folder is None:
            os.link(_native(source), name)
        else:
            from_folder, one = self._from(source)
            os.link(one, name, src_dir_fd=from_folder, dst_dir_fd=folder, follow_symlinks=False)

    def _from(self, path: AnyPath) -> tuple[int | None, str]:
        """Return the folder handle and name of a path to read, which may be anywhere."""
        if self._roots is not None and self._roots.contains(os.fspath(path)):
            return self._at(path)
        return None, _native(path)

    @_with_whole_paths
    def reflink(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        if sys.platform == "linux":
            self._copy(source, target, _calls().share_bytes)
            return
        import shutil

        self._at(target)  # refuses links
        _calls().clone_file(_native(source), _native(target))
        with suppress(OSError):
            shutil.copystat(_native(source), _native(target))

    @_with_whole_paths
    def copy(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        if sys.platform == "win32":
            import shutil

            self._at(target)  # refuses links
            shutil.copy2(_native(source), _native(target), follow_symlinks=False)
            return
        folder, name = self._from(source)
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(status.st_mode):
            leads_to = os.readlink(name, dir_fd=folder)
            to_folder, new = self._at(target)
            os.symlink(leads_to, new, dir_fd=to_folder)
        else:
            self._copy(source, target, _copy_bytes)

    def _copy(self, source: AnyPath, target: AnyPath, fill: Callable[[int, int], None]) -> None:
        """Create a file with the permissions and times of another; something else fills it."""
        folder, name = self._from(source)
        with closed_at_end(open_source(name, folder)) as reading:
            status = os.fstat(reading)
            mode = stat.S_IMODE(status.st_mode)
            to_folder, new = self._at(target)
            with new_file(new, to_folder, mode) as writing:
                fill(reading, writing)
                os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
                os.fchmod(writing, mode)

    @_with_whole_paths
    def sync_file(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        # Windows flushes only files open for writing.
        flags = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY
        with closed_at_end(self._open(path, flags)) as number:
            _sync(number)

    @_with_whole_paths
    def sync_folder(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        number = self.open_folder(path)
        if number is not None:  # NTFS has a journal for names, and folders cannot be opened
            with closed_at_end(number):
                _sync(number)

    def sync_tree(self, folder: AnyPath) -> None:
        """See `FileSystem`."""
        number = self.open_folder(folder)
        if number is not None:
            with closed_at_end(number):
                shared = _SYNCS.setdefault(os.fstat(number).st_dev, SharedSync())
                if shared.wait(partial(_calls().sync_file_system, number)):
                    return
        for name, is_folder in self.entries(folder):
            path = f"{os.fspath(folder)}{os.sep}{name}"
            if is_folder:
                self.sync_tree(path)
            elif stat.S_ISREG(self.lstat(path).st_mode):
                self.sync_file(path)
        self.sync_folder(folder)


def open_source(name: str, folder: int | None) -> int:
    """Open a file that is copied, which is no link, by its name in an open folder."""
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)


@contextmanager
def new_file(name: str, folder: int | None, mode: int) -> Iterator[int]:
    """Open a new file by its name in an open folder; on an error nothing is left of it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with closed_at_end(os.open(name, flags, mode, dir_fd=folder)) as number:
        try:
            yield number
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise


NATIVE: Final = NativeFileSystem()
"""The file systems of this machine."""


@cache
def _calls() -> ModuleType:
    from wheelfit.wheels import system_calls  # imports ctypes

    return system_calls


def _native(path: AnyPath) -> str:
    return extended(path) if sys.platform == "win32" else os.fspath(path)


def _mount_of(folder: str | int) -> bytes:
    """Return the mount of a folder; one file system may have several (Linux)."""
    if sys.platform != "linux":
        return b""
    with suppress(OSError):
        number = os.open(folder, os.O_PATH) if isinstance(folder, str) else folder
        try:
            with open(f"/proc/self/fdinfo/{number}", "rb") as stream:  # noqa: PTH123
                return next((line for line in stream if line.startswith(b"mnt_id:")), b"")
        finally:
            if number != folder:
                os.close(number)
    return b""


def _copy_bytes(reading: int, writing: int) -> None:
    import shutil

    with open(reading, "rb", closefd=False) as one, open(writing, "wb", closefd=False) as other:
        shutil.copyfileobj(one, other, 1 << 20)


def _sync(number: int) -> None:
    if sys.platform == "darwin":
        import fcntl  # not on Windows

        with suppress(OSError):  # not every file system there has it
            fcntl.fcntl(number, fcntl.F_FULLFSYNC)
            return
    os.fsync(number)


def patiently(step: Callable[[], _Result], first_pause: float = _FIRST_PAUSE) -> _Result:
    """Repeat something while another program has the file open, for about five seconds.

    :param first_pause: seconds before the second attempt; each next pause is twice as long.
    :raises OSError: it cannot be done, or not in that time.
    """
    pause = first_pause
    for _ in range(_ATTEMPTS - 1):
        try:
            return step()
        except PermissionError as error:
            if getattr(error, "winerror", None) not in _SHARING:
                raise
        time.sleep(pause)
        pause *= 2
    return step()


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)  # noqa: PTH121
    except OSError:
        return False


def _is_same_name(one: str, other: str) -> bool:
    """Return whether two paths are one name in another case, where case is ignored."""
    return one.casefold() == other.casefold() and _is_same(one, other)
