"""A folder that is held open, and changed without following links in it.

Every system call looks its path up again, so a process that can write to a folder on the way can
put a link there between two calls, and a link may have lain there before. `RootedFolder` opens its
folder once. Names in it are looked up from that handle, and a link on the way is an error, however
recent: on Linux by ``openat2``, else folder by folder with ``O_NOFOLLOW``. Windows has no such
handles; there every folder on the way is checked before each call, which notices existing links,
but not one created at that very moment.
"""

# Ten thousands of files are changed through this module: names are strings, and ``os`` is called.
# ruff: noqa: PTH116, PTH208

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections import OrderedDict
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final

from wheelfit.errors import LinkInTheWay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Self

_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_NOT_FOLLOWED: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOT_FOLLOWED
_MOST_HANDLES: Final = 32
_DETOURS: Final = frozenset({"", ".", ".."})


class Resolving(Enum):
    """A way to look names up."""

    AT_ONCE = "at once"
    """By one call, ``openat2``; the next where the kernel has none."""
    STEPWISE = "stepwise"
    """Folder by folder, each from the handle of the one before."""
    BY_PATH = "by path"
    """By paths, of which every folder is looked at before."""


_BEST: Final = (
    Resolving.AT_ONCE
    if {os.open, os.mkdir, os.unlink, os.stat, os.rename, os.link} <= os.supports_dir_fd
    and hasattr(os, "O_NOFOLLOW")
    else Resolving.BY_PATH
)


class _Handles(OrderedDict[str, int]):
    """Numbers of open folders by name, the last used at the end."""

    def close(self) -> None:
        while self:
            os.close(self.popitem()[1])

    __del__ = close


class _OfThread(threading.local):
    """Open folders for each thread, so that none closes what another one is using."""

    def __init__(self) -> None:
        self.handles = _Handles()


class RootedFolder:
    """A folder held open, below which no link is followed.

    Names are relative to it, with ``/``; an absolute name or one with ``..`` is a `ValueError`.
    Every method may raise `LinkInTheWay` (a link, or another reparse point of Windows, is where a
    folder should be) and ``OSError``; an existing name is never reused (``FileExistsError``). Mount
    points in it are folders like others.

    Use as a context manager, or call `close`.

    :param folder: exists; links that lead to it are followed, this once.
    :param resolving: the way to look up names; by default the strongest of this system.
    """

    def __init__(self, folder: str | os.PathLike[str], resolving: Resolving = _BEST) -> None:
        self.path = os.path.realpath(folder)
        """The folder, without links."""
        self._resolving = resolving
        self._local = _OfThread()
        self._root = -1
        if resolving is not Resolving.BY_PATH:
            self._root = os.open(self.path, _FOLDER)
        elif not stat.S_ISDIR(os.stat(self.path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder; no other thread uses it any more."""
        self._local.handles.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    # --- looking names up ---

    def at(self, name: str) -> tuple[int | None, str]:
        """Return the handle and name of a path, for a function of ``os`` that takes ``dir_fd``.

        :return: the number of the open folder in which it is, valid until the next call of a
            method in this thread but one, and its last name; without handles None and a path.
        """
        folder, _, last = name.rpartition("/")
        if last in _DETOURS or (os.sep != "/" and _is_no_name(last)):
            raise ValueError(f"{name!r} is not a name below a folder")
        if self._resolving is Resolving.BY_PATH:
            return None, os.path.join(self._looked_at(folder), last)  # noqa: PTH118
        return self._number_of(folder), last

    def handle(self, folder: str = "") -> int | str:
        """Return the number of an open folder, valid as that of `at`; without handles its path."""
        if self._resolving is Resolving.BY_PATH:
            return self._looked_at(folder)
        return self._number_of(folder)

    def path_of(self, name: str) -> str:
        """Return the path of a file or folder in it, for messages."""
        return os.path.join(self.path, *name.split("/")) if name else self.path  # noqa: PTH118

    def open_folder(self, name: str = "") -> int:
        """Open a folder, and return its number, which is the caller's to close."""
        if self._resolving is Resolving.BY_PATH:
            return os.open(self._looked_at(name), os.O_RDONLY)
        return os.dup(self._root) if not name else self._open(name)

    def _number_of(self, folder: str) -> int:
        if not folder:
            return self._root
        handles = self._local.handles
        number = handles.get(folder)
        if number is None:
            number = self._open(folder)
            while len(handles) >= _MOST_HANDLES:
                os.close(handles.popitem(last=False)[1])
            handles[folder] = number
        else:
            handles.move_to_end(folder)
        return number

    def _open(self, folder: str) -> int:
        names = folder.split("/")
        if not _DETOURS.isdisjoint(names):
            raise ValueError(f"{folder!r} is not a name below a folder")
        above = self._local.handles.get("/".join(names[:-1])) if len(names) > 1 else self._root
        if above is not None:  # a quarter of the time of a whole look-up
            return self._open_next(above, names[-1], names)
        if self._resolving is Resolving.AT_ONCE:
            try:
                number = _calls().open_below(self._root, folder, _FOLDER)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    error.filename = self.path_of(folder)
                    raise
                number = None  # which of them it is comes out below
            if number is not None:
                return int(number)
        above = self._root
        try:
            for position, name in enumerate(names):
                number = self._open_next(above, name, names[: position + 1])
                if above != self._root:
                    os.close(above)
                above = number
        except BaseException:
            if above != self._root:
                os.close(above)
            raise
        return above

    def _open_next(self, above: int, name: str, way: list[str]) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=above)
        except OSError as error:
            path = self.path_of("/".join(way))
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                with suppress(FileNotFoundError):
                    # What is a folder now was none, but a link, a moment ago.
                    if not stat.S_ISREG(os.lstat(name, dir_fd=above).st_mode):
                        raise _refusal(path) from None
            error.filename = path
            raise

    def _looked_at(self, folder: str) -> str:
        """Return the path of a folder after checking each one on the way."""
        path = self.path
        for name in folder.split("/") if folder else ():
            if _is_no_name(name):
                raise ValueError(f"{folder!r} is not a name below a folder")
            path = os.path.join(path, name)  # noqa: PTH118
            status = os.lstat(path)
            if _is_link(status):
                raise _refusal(path)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return path

    def forget(self, name: str) -> None:
        """Close the handles of a folder that was moved or removed, and of those in it."""
        handles = self._local.handles
        inside = name + "/"
        for folder in [handle for handle in handles if handle == name or handle.startswith(inside)]:
            os.close(handles.pop(folder))

    # --- looking at what is there ---

    def lstat(self, name: str = "") -> os.stat_result:
        """Return the status of a file, folder or link; a link is not followed."""
        if not name:
            return os.stat(self.path if self._root < 0 else self._root)
        folder, last = self.at(name)
        return os.lstat(last, dir_fd=folder)

    def exists(self, name: str) -> bool:
        """Return whether something has a name, a link that leads nowhere included."""
        try:
            self.lstat(name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def names(self, folder: str = "") -> list[str]:
        """Return the entries of a folder, sorted."""
        return sorted(os.listdir(self.handle(folder)))

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open a file, never through a link, and return its number."""
        folder, last = self.at(name)
        if folder is None and os.path.lexists(last) and _is_link(os.lstat(last)):
            raise _refusal(last)
        try:
            return os.open(last, flags | _NOT_FOLLOWED, mode, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _refusal(self.path_of(name)) from None
            raise

    def read(self, name: str, at_most: int) -> bytes:
        """Return the content of a regular file.

        :param at_most: bytes; of a longer file only its begin is returned.
        """
        # Opening a pipe would wait for a writer.
        return read_regular(self.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), at_most)

    # --- changing ---

    def make_folder(self, name: str, mode: int = 0o777) -> None:
        """Create a folder."""
        folder, last = self.at(name)
        os.mkdir(last, mode, dir_fd=folder)

    def make_folders(self, name: str) -> None:
        """Create a folder and those around it, as far as they do not exist."""
        above = name.rpartition("/")[0]
        try:
            self.make_folder(name)
        except FileNotFoundError:
            self.make_folders(above)
            self.make_folders(name)
        except FileExistsError:
            if _is_link(self.lstat(name)):
                raise _refusal(self.path_of(name)) from None
            if not stat.S_ISDIR(self.lstat(name).st_mode):
                raise

    def write(self, name: str, data: bytes, mode: int = 0o666) -> None:
        """Create a file with some content."""
        folder, last = self.at(name)
        with closed_at_end(os.open(last, _NEW, mode, dir_fd=folder)) as number:
            write_all(number, data)

    def remove_file(self, name: str) -> None:
        """Remove a file or a link; the target of a link stays."""
        folder, last = self.at(name)
        os.unlink(last, dir_fd=folder)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        folder, last = self.at(name)
        os.rmdir(last, dir_fd=folder)
        self.forget(name)

    def remove_tree(self, name: str) -> None:
        """Remove a file, a link, or a folder with everything in it; links are not followed."""
        status = self.lstat(name)
        if _is_link(status) or not stat.S_ISDIR(status.st_mode):
            self.remove_file(name)
            return
        for each in self.names(name):
            self.remove_tree(f"{name}/{each}")
        self.remove_folder(name)

    def move(self, source: str, target: str) -> None:
        """Rename a file, link or folder, never onto something."""
        (folder, one), (other_folder, other) = self.at(source), self.at(target)
        if not _calls().move_exclusively(one, other, folder, other_folder):
            if self.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            os.rename(one, other, src_dir_fd=folder, dst_dir_fd=other_folder)
        self.forget(source)

    def replace(self, source: str, target: str) -> None:
        """Rename a file in one step to a name that another file, or a link, may have until then."""
        (folder, one), (other_folder, other) = self.at(source), self.at(target)
        os.replace(one, other, src_dir_fd=folder, dst_dir_fd=other_folder)

    def sync_file(self, name: str) -> None:
        """Wait until the content of a file is on the disk."""
        # Windows flushes only what is open for writing.
        flags = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY
        with closed_at_end(self.open(name, flags)) as number:
            os.fsync(number)

    def sync_folder(self, name: str = "") -> None:
        """Wait until the names in a folder are on the disk."""
        if self._resolving is not Resolving.BY_PATH:  # NTFS has a journal for names
            os.fsync(self._number_of(name))


@contextmanager
def closed_at_end(number: int) -> Iterator[int]:
    """Close an open file or folder when the block ends."""
    try:
        yield number
    finally:
        os.close(number)


def read_regular(number: int, at_most: int) -> bytes:
    """Return the content of an open file, or its begin, and close it.

    :raises OSError: it is not a regular file, or cannot be read.
    """
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    with open(number, "rb") as file:
        return file.read(at_most)


def write_all(number: int, data: bytes) -> None:
    """Write all of some data to an open file."""
    count = os.write(number, data) if data else 0
    while count < len(data):  # a disk that is nearly full takes less at once
        count += os.write(number, memoryview(data)[count:])


def _is_link(status: os.stat_result) -> bool:
    # Of the reparse points of Windows, those that stand for something else, as junctions do.
    tag = getattr(status, "st_reparse_tag", 0)
    return stat.S_ISLNK(status.st_mode) or bool(tag & 0x20000000)


def _is_no_name(name: str) -> bool:
    return name in _DETOURS or os.sep in name or (os.sep == "\\" and ":" in name)


def _refusal(path: str) -> LinkInTheWay:
    return LinkInTheWay(
        "a link is where a folder or file of ours should be, and is not followed",
        where=path,
        hint="remove the link, or name the folder that it leads to",
    )


@cache
def _calls() -> ModuleType:
    from wheelfit.wheels import system_calls  # imports ctypes

    return system_calls
