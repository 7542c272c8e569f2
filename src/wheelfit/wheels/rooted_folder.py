"""A folder that stays open, and is changed without following links in it.

Every system call resolves its path again, so a process that can write to a folder of the path can
put a link there between two calls, and there may be an older link. `RootedFolder` opens its folder
once. Names in it are resolved from that handle, and a link in the path is an error, however recent:
on Linux by ``openat2``, otherwise folder by folder with ``O_NOFOLLOW``. Windows has no such
handles; there every folder of the path is checked before each call, which detects existing links,
but not one that is created at that moment.
"""

# Tens of thousands of files are changed through this module: names are strings for `os`.
# ruff: noqa: PTH116, PTH208

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections import OrderedDict
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final

from wheelfit.errors import LinkRefused
from wheelfit.wheels.disk_operations import DiskOperations, system_calls

if TYPE_CHECKING:
    from typing import Self

    from wheelfit.wheels.disk_operations import AnyPath

_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_NOT_FOLLOWED: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_MAX_HANDLES: Final = 32
_RELATIVE_PARTS: Final = frozenset({"", ".", ".."})


class LookupMode(Enum):
    """A method of resolving names."""

    AT_ONCE = "at once"
    """By one call, ``openat2``; `STEPWISE` if the kernel lacks it."""
    STEPWISE = "stepwise"
    """Folder by folder, each from the handle of its parent."""
    BY_PATH = "by path"
    """By paths, after checking every folder in them."""


_STRONGEST: Final = (
    LookupMode.AT_ONCE
    if {os.open, os.mkdir, os.unlink, os.stat, os.rename, os.link} <= os.supports_dir_fd
    and hasattr(os, "O_NOFOLLOW")
    else LookupMode.BY_PATH
)


class _Handles(OrderedDict[str, int]):
    """The descriptors of open folders by name, the most recently used last."""

    def close(self) -> None:
        while self:
            os.close(self.popitem()[1])

    __del__ = close


class _ThreadHandles(threading.local):
    """The open folders of each thread, so that no thread closes one that another one uses."""

    def __init__(self) -> None:
        self.handles = _Handles()


class RootedFolder(DiskOperations):
    """A folder that stays open, below which no link is followed.

    Names are relative to it, with ``/``; an absolute name or one with ``..`` is a `ValueError`.
    Every method may raise `LinkRefused` (a link, or another reparse point of Windows, is where a
    folder should be) and ``OSError``; an existing name is never reused (``FileExistsError``). Mount
    points in it are folders like others.

    Use as a context manager, or call `close`.

    :param folder: an existing folder; links that lead to it are followed.
    :param lookup: the method of resolving names; by default the strongest of this system.
    """

    def __init__(self, folder: str | os.PathLike[str], lookup: LookupMode = _STRONGEST) -> None:
        self.path = os.path.realpath(folder)
        """The folder, without links."""
        self._lookup = lookup
        self._local = _ThreadHandles()
        self._root = -1
        if lookup is not LookupMode.BY_PATH:
            self._root = os.open(self.path, _FOLDER)
        elif not stat.S_ISDIR(os.stat(self.path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder; no other thread may use it any more."""
        self._local.handles.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    # --- resolving names ---

    def resolve(self, name: AnyPath) -> tuple[int | None, str]:
        """Return the handle and name of a path, for a function of ``os`` that takes ``dir_fd``.

        :return: the descriptor of the parent folder, valid for this and the next call of a method
            in this thread, and the last part of the name; without handles, None and the full path.
        """
        folder, _, last = os.fspath(name).rpartition("/")
        if last in _RELATIVE_PARTS or (os.sep != "/" and _is_invalid_name(last)):
            raise ValueError(f"{name!r} is not a name below a folder")
        if self._lookup is LookupMode.BY_PATH:
            return None, os.path.join(self._checked_path(folder), last)  # noqa: PTH118
        return self._descriptor_of(folder), last

    def handle(self, folder: str = "") -> int | str:
        """Return the descriptor of a folder, valid as in `resolve`; without handles, its path."""
        if self._lookup is LookupMode.BY_PATH:
            return self._checked_path(folder)
        return self._descriptor_of(folder)

    def path_of(self, name: AnyPath) -> str:
        """Return the full path of a name, for messages."""
        return os.path.join(self.path, *os.fspath(name).split("/")) if name else self.path  # noqa: PTH118

    def open_folder(self, folder: AnyPath = "") -> int | None:
        """Open a folder, and return its descriptor, for the caller to close.

        :return: None on Windows, where folders cannot be opened; links are refused there too.
        """
        name = os.fspath(folder)
        if self._lookup is LookupMode.BY_PATH:
            path = self._checked_path(name)
            return None if sys.platform == "win32" else os.open(path, os.O_RDONLY)
        return os.dup(self._root) if not name else self._open(name)

    def _descriptor_of(self, folder: str) -> int:
        if not folder:
            return self._root
        handles = self._local.handles
        descriptor = handles.get(folder)
        if descriptor is None:
            descriptor = self._open(folder)
            while len(handles) >= _MAX_HANDLES:
                os.close(handles.popitem(last=False)[1])
            handles[folder] = descriptor
        else:
            handles.move_to_end(folder)
        return descriptor

    def _open(self, folder: str) -> int:
        names = folder.split("/")
        if not _RELATIVE_PARTS.isdisjoint(names):
            raise ValueError(f"{folder!r} is not a name below a folder")
        parent = self._local.handles.get("/".join(names[:-1])) if len(names) > 1 else self._root
        if parent is not None:  # takes a quarter of the time of resolving the whole path
            return self._open_next(parent, names[-1], names)
        if self._lookup is LookupMode.AT_ONCE:
            try:
                descriptor = system_calls().open_below(self._root, folder, _FOLDER)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    error.filename = self.path_of(folder)
                    raise
                descriptor = None  # opening folder by folder shows which one is a link
            if descriptor is not None:
                return int(descriptor)
        parent = self._root
        try:
            for position, name in enumerate(names):
                descriptor = self._open_next(parent, name, names[: position + 1])
                if parent != self._root:
                    os.close(parent)
                parent = descriptor
        except BaseException:
            if parent != self._root:
                os.close(parent)
            raise
        return parent

    def _open_next(self, parent: int, name: str, names: list[str]) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=parent)
        except OSError as error:
            path = self.path_of("/".join(names))
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                with suppress(FileNotFoundError):
                    # These errors mean a file or a link, which may have become a folder by now.
                    is_file = stat.S_ISREG(os.lstat(name, dir_fd=parent).st_mode)
                    if not is_file:
                        raise _link_error(path) from None
            error.filename = path
            raise

    def _checked_path(self, folder: str) -> str:
        """Return the path of a folder, after checking each folder in it for links."""
        path = self.path
        for name in folder.split("/") if folder else ():
            if _is_invalid_name(name):
                raise ValueError(f"{folder!r} is not a name below a folder")
            path = os.path.join(path, name)  # noqa: PTH118
            status = os.lstat(path)
            if _is_link(status):
                raise _link_error(path)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return path

    def forget(self, name: AnyPath) -> None:
        """Close the handles of a folder that was moved or removed, and of those in it."""
        name, handles = os.fspath(name), self._local.handles
        prefix = f"{name}/"
        for folder in [
            open_name for open_name in handles if open_name == name or open_name.startswith(prefix)
        ]:
            os.close(handles.pop(folder))

    # --- reading ---

    def lstat(self, path: AnyPath = "") -> os.stat_result:
        """Return the status of a file, folder or link; a link is not followed."""
        if not os.fspath(path):
            return os.stat(self.path if self._root < 0 else self._root)
        folder, last = self.resolve(path)
        return os.lstat(last, dir_fd=folder)

    def names(self, folder: str = "") -> list[str]:
        """Return the entries of a folder, sorted."""
        return sorted(os.listdir(self.handle(folder)))

    def open(self, name: AnyPath, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Open a file, never through a link, and return its descriptor."""
        folder, last = self.resolve(name)
        if folder is None and os.path.lexists(last) and _is_link(os.lstat(last)):
            raise _link_error(last)
        try:
            return os.open(last, flags | _NOT_FOLLOWED, mode, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _link_error(self.path_of(name)) from None
            raise

    # --- changing ---

    def make_folders(self, name: str) -> None:
        """Create a folder and its missing parents, if it does not exist."""
        parent = name.rpartition("/")[0]
        try:
            self.make_folder(name)
        except FileNotFoundError:
            self.make_folders(parent)
            self.make_folders(name)
        except FileExistsError:
            if _is_link(self.lstat(name)):
                raise _link_error(self.path_of(name)) from None
            if not stat.S_ISDIR(self.lstat(name).st_mode):
                raise

    def remove_tree(self, name: str) -> None:
        """Remove a file, a link, or a folder with everything in it; links are not followed."""
        status = self.lstat(name)
        if _is_link(status) or not stat.S_ISDIR(status.st_mode):
            self.remove_file(name)
            return
        for entry in self.names(name):
            self.remove_tree(f"{name}/{entry}")
        self.remove_folder(name)


def _is_link(status: os.stat_result) -> bool:
    # The bit marks name surrogates among the reparse points of Windows, such as junctions.
    tag = getattr(status, "st_reparse_tag", 0)
    return stat.S_ISLNK(status.st_mode) or bool(tag & 0x20000000)


def _is_invalid_name(name: str) -> bool:
    return name in _RELATIVE_PARTS or os.sep in name or (os.sep == "\\" and ":" in name)


def _link_error(path: str) -> LinkRefused:
    return LinkRefused(
        "a link is where a folder or file of wheelfit should be, and is not followed",
        where=path,
        hint="remove the link, or name the folder that it leads to",
    )
