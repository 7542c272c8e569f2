"""What a file system can do, behind one interface, so that tests can play any of them.

`FileSystem` is what installing and linking use to change something on the disk; looking is
done with ``os`` directly, but for what depends on the file system itself. `NATIVE` is the
real one. The ways in which systems differ are all here: whether two names can be exchanged,
whether a rename may land on something, which copies take no space, how written data is made
to survive a power cut, how long a path may be, and that Windows does not move what a virus
scanner has just opened.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from wheelfit.wheels.shared_sync import SharedSync

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from types import ModuleType
    from typing import TypeAlias

__all__ = ["NATIVE", "AnyPath", "FileSystem", "NativeFileSystem", "extended", "patiently"]


def __dir__() -> list[str]:
    return __all__


AnyPath: TypeAlias = "str | os.PathLike[str]"
"""A path; thousands of them are quicker as plain strings."""

_Result = TypeVar("_Result")

# Another program has just opened the file, often a virus scanner; it will let go of it.
_SHARING = frozenset({5, 32, 33})  # ERROR_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION
_ATTEMPTS = 10
_FIRST_PAUSE = 0.01
# Windows' own limit is 260 with the ending zero, and 248 for folders.
_LONGEST = 240
_SYNCS: Final[dict[int, SharedSync]] = {}  # by number of the device


class FileSystem(Protocol):
    """Change and look at what lies on a disk. Every method may raise ``OSError``."""

    def exists(self, path: AnyPath) -> bool:
        """Tell whether something has this name, a link that leads nowhere included."""

    def device_of(self, folder: AnyPath) -> Hashable:
        """Return what stands for the file system in which a folder lies.

        Only within one can things be moved by a rename and linked.
        """

    def is_case_sensitive(self, folder: AnyPath) -> bool:
        """Tell whether ``a`` and ``A`` are two files in a folder; nothing is written."""

    def make_folder(self, path: AnyPath) -> None:
        """Create a folder.

        :raises FileExistsError: something has this name.
        """

    def write(self, path: AnyPath, data: bytes) -> None:
        """Create a file with some content.

        :raises FileExistsError: something has this name.
        """

    def remove_file(self, path: AnyPath) -> None:
        """Remove a file or a link."""

    def remove_folder(self, path: AnyPath) -> None:
        """Remove an empty folder."""

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file or folder within a file system, never onto something.

        :raises FileExistsError: something has the name of the target.
        """

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a file in one step to a name that another file may have until then."""

    def exchange(self, one: AnyPath, other: AnyPath) -> bool:
        """Give two files or folders each other's names in one step.

        :return: False where that cannot be done; then nothing has happened.
        """

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Give a file a second name."""

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


class NativeFileSystem:
    """Change the disk of this machine."""

    def exists(self, path: AnyPath) -> bool:
        """See `FileSystem`."""
        return os.path.lexists(_native(path))

    def device_of(self, folder: AnyPath) -> Hashable:
        """See `FileSystem`."""
        path = _native(folder)
        return os.stat(path).st_dev, _mount_of(path)  # noqa: PTH116

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

    def make_folder(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        os.mkdir(_native(path))  # noqa: PTH102

    def write(self, path: AnyPath, data: bytes) -> None:
        """See `FileSystem`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        number = os.open(_native(path), flags, 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(number, view) :]
        finally:
            os.close(number)

    def remove_file(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        if sys.platform == "win32":
            native = _native(path)
            patiently(lambda: os.unlink(native))  # noqa: PTH108
        else:
            os.unlink(path)  # noqa: PTH108  # of ten thousands: nothing else is called

    def remove_folder(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        if sys.platform == "win32":
            native = _native(path)
            patiently(lambda: os.rmdir(native))  # noqa: PTH106
        else:
            os.rmdir(path)  # noqa: PTH106

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        one, other = _native(source), _native(target)
        if _calls().move_exclusively(one, other):
            return
        # Windows' own rename refuses by itself; elsewhere nobody else is at work here, for the
        # environment is locked, and a look before is what is left.
        if os.path.lexists(other) and not _is_same_name(one, other):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), one, None, other)
        patiently(lambda: os.rename(one, other))  # noqa: PTH104

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        one, other = _native(source), _native(target)
        patiently(lambda: os.replace(one, other))  # noqa: PTH105

    def exchange(self, one: AnyPath, other: AnyPath) -> bool:
        """See `FileSystem`."""
        return bool(_calls().exchange(os.fspath(one), os.fspath(other)))

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        os.link(_native(source), _native(target))

    def reflink(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        import shutil  # noqa: PLC0415 - start-up

        _calls().clone_file(_native(source), _native(target))
        with suppress(OSError):
            shutil.copystat(_native(source), _native(target))

    def copy(self, source: AnyPath, target: AnyPath) -> None:
        """See `FileSystem`."""
        import shutil  # noqa: PLC0415 - start-up

        shutil.copy2(_native(source), _native(target), follow_symlinks=False)

    def sync_file(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        # Windows flushes only what is open for writing.
        number = os.open(_native(path), os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
        try:
            _sync(number)
        finally:
            os.close(number)

    def sync_folder(self, path: AnyPath) -> None:
        """See `FileSystem`."""
        if sys.platform == "win32":
            return  # NTFS has a journal for names, and folders cannot be opened
        self.sync_file(path)

    def sync_tree(self, folder: AnyPath) -> None:
        """See `FileSystem`."""
        path = _native(folder)
        shared = _SYNCS.setdefault(os.stat(path).st_dev, SharedSync())  # noqa: PTH116
        if shared.wait(partial(_calls().sync_file_system, path)):
            return
        for base, _, names in os.walk(path):
            for name in names:
                path = os.path.join(base, name)  # noqa: PTH118
                if not os.path.islink(path):  # noqa: PTH114
                    self.sync_file(path)
            self.sync_folder(base)


NATIVE: Final = NativeFileSystem()
"""The file systems of this machine."""


@cache
def _calls() -> ModuleType:
    from wheelfit.wheels import system_calls  # noqa: PLC0415  # it imports ctypes

    return system_calls


def _native(path: AnyPath) -> str:
    return extended(path) if sys.platform == "win32" else os.fspath(path)


def _mount_of(folder: str) -> bytes:
    """Return which mount a folder is seen through; one file system may have several (Linux)."""
    if sys.platform != "linux":
        return b""
    with suppress(OSError):
        number = os.open(folder, os.O_PATH)
        try:
            with open(f"/proc/self/fdinfo/{number}", "rb") as stream:  # noqa: PTH123
                return next((line for line in stream if line.startswith(b"mnt_id:")), b"")
        finally:
            os.close(number)
    return b""


def _sync(number: int) -> None:
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415  # not on Windows

        with suppress(OSError):  # not every file system there has it
            fcntl.fcntl(number, fcntl.F_FULLFSYNC)
            return
    os.fsync(number)


def patiently(step: Callable[[], _Result], first_pause: float = _FIRST_PAUSE) -> _Result:
    """Do something again while another program has the file open, for about five seconds.

    :param step: what to do.
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
    """Tell whether two paths are one name in another case, where case is ignored."""
    return one.casefold() == other.casefold() and _is_same(one, other)
