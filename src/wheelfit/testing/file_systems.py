"""File systems that behave as others than this machine's do, for tests.

Each is the real one with an operation removed: `WithoutExchange`, `WithoutLinks`, `LikeWindows`,
`Layered`, `ReadOnly` and `Full` refuse the operations that such a system refuses. `IgnoringCase`
finds names in any case, and `WithoutOwners` gives all files one owner and mode. `Killing` simulates
the end of the process before a chosen change of the disk: from then on nothing is changed any more,
not even by handlers of the exception.
"""

from __future__ import annotations

import errno
import os
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from wheelfit.wheels.native_file_system import NativeFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.wheels.file_system import AnyPath


def _refuse(number: int, path: AnyPath) -> NoReturn:
    raise OSError(number, os.strerror(number), os.fspath(path))


class WithoutExchange(NativeFileSystem):
    """Two names cannot be exchanged."""

    def exchange(self, path: AnyPath, other: AnyPath) -> bool:  # noqa: ARG002
        """Return False: exchanging is not supported."""
        return False


class WithoutLinks(NativeFileSystem):
    """A file system on which a file has one name only, and its own bytes."""

    by_folder = False

    def link(self, source: AnyPath, target: AnyPath) -> None:  # noqa: ARG002
        """Raise an error: links are not supported."""
        _refuse(errno.EPERM, target)

    def reflink(self, source: AnyPath, target: AnyPath) -> None:  # noqa: ARG002
        """Raise an error: reflinks are not supported."""
        _refuse(errno.EOPNOTSUPP, target)


class LikeWindows(WithoutExchange):
    """A file system that moves no open file, nor a folder with one.

    :param opened: paths of files that other programs have open.
    """

    by_folder = False

    def __init__(self, opened: set[str] | None = None) -> None:
        self.opened = set() if opened is None else opened

    def _check(self, path: AnyPath) -> None:
        text = os.fspath(path)
        if any(one == text or one.startswith(text + os.sep) for one in self.opened):
            _refuse(errno.EACCES, path)

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Move a path; raise if it is open, or the target exists."""
        self._check(source)
        super().move(source, target)

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Replace a path; raise if one of both is open."""
        self._check(source)
        self._check(target)
        super().replace(source, target)

    def remove_file(self, path: AnyPath) -> None:
        """Remove a file; raise if it is open."""
        self._check(path)
        super().remove_file(path)


class Layered(NativeFileSystem):
    """A file system with a lower layer, as in a container: its folders cannot be renamed.

    :param below: the folder of the lower layer.
    """

    def __init__(self, below: str) -> None:
        self.lower = {os.stat(base).st_ino for base, _, _ in os.walk(below)}  # noqa: PTH116

    def _check(self, path: AnyPath) -> None:
        if os.lstat(path).st_ino in self.lower:
            _refuse(errno.EXDEV, path)

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Move a path; raise for folders of the lower layer."""
        self._check(source)
        super().move(source, target)

    def exchange(self, path: AnyPath, other: AnyPath) -> bool:
        """Exchange two paths; raise for folders of the lower layer."""
        self._check(path)
        self._check(other)
        return super().exchange(path, other)


class IgnoringCase(NativeFileSystem):
    """Names are the same in any case, and stay as they were first written.

    Only calls of this object ignore it, and only for the last name of a path.
    """

    def _spelled(self, path: AnyPath) -> str:
        folder, name = os.path.split(os.fspath(path))
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208
        except OSError:
            return os.fspath(path)
        same = [one for one in names if one.casefold() == name.casefold()]
        return os.path.join(folder, same[0] if same else name)  # noqa: PTH118

    def is_case_sensitive(self, folder: AnyPath) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def exists(self, path: AnyPath) -> bool:
        """Return whether any spelling exists."""
        return super().exists(self._spelled(path))

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Move a path; raise if the target exists in any case."""
        if self.exists(target):
            _refuse(errno.EEXIST, target)
        super().move(self._spelled(source), target)

    def exchange(self, path: AnyPath, other: AnyPath) -> bool:
        """Exchange the contents of two names, which stay."""
        return super().exchange(self._spelled(path), self._spelled(other))


class WithoutOwners(NativeFileSystem):
    """A file system on which all files have one owner and one mode, as FAT or a share.

    :param owner: the number of this user.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner

    def lstat(self, path: AnyPath) -> os.stat_result:
        """Return the status, with the owner and mode that such a system reports."""
        status = super().lstat(path)
        owners = (self._owner, self._owner)
        return os.stat_result((status.st_mode | 0o777, *status[1:4], *owners, *status[6:]))

    def set_mode(self, path: AnyPath, mode: int) -> None:  # noqa: ARG002
        """Raise an error: modes cannot be set."""
        _refuse(errno.EPERM, path)


class Changing(NativeFileSystem):
    """A file system that calls a function before every change of the disk."""

    by_folder = False

    def __init__(self, before: Callable[[str], None]) -> None:
        self.before = before


def _announced(name: str) -> Callable[..., Any]:
    """Return a method that calls `Changing.before` with its name first."""
    method = getattr(NativeFileSystem, name)

    @wraps(method)
    def call(self: Changing, *arguments: Any) -> Any:
        self.before(name)
        return method(self, *arguments)

    return call


for _name in (
    "make_folder", "write", "set_mode", "remove_file", "remove_folder", "move", "replace",
    "exchange", "link", "reflink", "copy", "sync_file", "sync_folder", "sync_tree",
):  # fmt: skip
    setattr(Changing, _name, _announced(_name))


class Killed(BaseException):
    """The process is gone; code of ours that catches this can do nothing either."""


class Killing(Changing):
    """A file system that kills the process before one change of the disk.

    :param after: the number of changes before.
    """

    def __init__(self, after: int) -> None:
        super().__init__(self._count)
        self.left = after

    def _count(self, _: str) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


class ReadOnly(Changing):
    """Nothing can be changed.

    :param after: how many changes are made before.
    """

    number = errno.EROFS

    def __init__(self, after: int = 0) -> None:
        super().__init__(self._count)
        self.left = after

    def _count(self, method: str) -> None:
        if self.left <= 0 and method in self.refused:
            raise OSError(self.number, os.strerror(self.number), method)
        self.left -= 1

    refused = frozenset(
        {
            *("make_folder", "write", "remove_file", "remove_folder", "move", "replace"),
            *("exchange", "link", "reflink", "copy", "set_mode"),
        }
    )


class Full(ReadOnly):
    """A full file system, on which files can only be moved and removed.

    :param after: the number of changes before.
    """

    number = errno.ENOSPC
    refused = frozenset({"make_folder", "write", "link", "reflink", "copy"})
