"""File systems for tests, which behave like those of other machines.

Each is the native one with a difference. `FileSystemWithoutExchange`, `FileSystemWithoutLinks`,
`WindowsLikeFileSystem`, `OverlayFileSystem`, `ReadOnlyFileSystem` and `FullFileSystem` refuse
operations, `CaseInsensitiveFileSystem` finds names in any case, and `FileSystemWithoutOwners`
reports one owner and mode for all files. `KillingFileSystem` simulates the end of the process
before a change of the disk: from then on nothing is changed, not even by exception handlers.
"""

from __future__ import annotations

import errno
import os
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from wheelfit.wheels.file_system import FileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.wheels.disk_operations import AnyPath


def _refuse(number: int, path: AnyPath) -> NoReturn:
    raise OSError(number, os.strerror(number), os.fspath(path))


class FileSystemWithoutExchange(FileSystem):
    """A file system that cannot exchange two names in one step."""

    def exchange(self, path: AnyPath, other: AnyPath) -> bool:  # noqa: ARG002
        """Return False, which means that it is not supported."""
        return False


class FileSystemWithoutLinks(FileSystem):
    """A file system without hard links and reflinks."""

    allows_batches = False  # so that callers use `link`, and do not link files of open folders

    def link(self, source: AnyPath, target: AnyPath) -> None:  # noqa: ARG002
        """Raise an error: links are not supported."""
        _refuse(errno.EPERM, target)

    def reflink(self, source: AnyPath, target: AnyPath) -> None:  # noqa: ARG002
        """Raise an error: reflinks are not supported."""
        _refuse(errno.EOPNOTSUPP, target)


class WindowsLikeFileSystem(FileSystemWithoutExchange):
    """A file system that cannot move an open file, nor a folder that contains one.

    :param opened: paths of files that other programs have open.
    """

    allows_batches = False

    def __init__(self, opened: set[str] | None = None) -> None:
        self.opened = set() if opened is None else opened

    def _check(self, path: AnyPath) -> None:
        text = os.fspath(path)
        if any(opened == text or opened.startswith(text + os.sep) for opened in self.opened):
            _refuse(errno.EACCES, path)

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Move a path; raise if it is open, or the target exists."""
        self._check(source)
        super().move(source, target)

    def replace(self, source: AnyPath, target: AnyPath) -> None:
        """Replace a path; raise if either is open."""
        self._check(source)
        self._check(target)
        super().replace(source, target)

    def remove_file(self, path: AnyPath) -> None:
        """Remove a file; raise if it is open."""
        self._check(path)
        super().remove_file(path)


class OverlayFileSystem(FileSystem):
    """An overlay file system, as in a container: folders of its lower layer cannot be renamed.

    :param lower: a folder that is in the lower layer, with all folders below it.
    """

    def __init__(self, lower: str) -> None:
        self._inodes = {os.stat(folder).st_ino for folder, _, _ in os.walk(lower)}  # noqa: PTH116

    def _check(self, path: AnyPath) -> None:
        if os.lstat(path).st_ino in self._inodes:
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


class CaseInsensitiveFileSystem(FileSystem):
    """A file system that ignores the case of names, but preserves it.

    Only calls of this object ignore the case, and only that of the last part of a path.
    """

    def _existing_spelling(self, path: AnyPath) -> str:
        folder, name = os.path.split(os.fspath(path))
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208
        except OSError:
            return os.fspath(path)
        equal = [other for other in names if other.casefold() == name.casefold()]
        return os.path.join(folder, equal[0] if equal else name)  # noqa: PTH118

    def is_case_sensitive(self, folder: AnyPath) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def exists(self, path: AnyPath) -> bool:
        """Return whether a path exists in any case."""
        return super().exists(self._existing_spelling(path))

    def move(self, source: AnyPath, target: AnyPath) -> None:
        """Move a path; raise if the target exists in any case."""
        if self.exists(target):
            _refuse(errno.EEXIST, target)
        super().move(self._existing_spelling(source), target)

    def exchange(self, path: AnyPath, other: AnyPath) -> bool:
        """Exchange two paths; both keep the case of their names."""
        return super().exchange(self._existing_spelling(path), self._existing_spelling(other))


class FileSystemWithoutOwners(FileSystem):
    """A file system on which all files have one owner and one mode, as FAT or a network share.

    :param owner: the user and group id of all files.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner

    def lstat(self, path: AnyPath) -> os.stat_result:
        """Return the status, with the owner and mode that such a system reports."""
        status = super().lstat(path)
        # Fields of a status: mode, three others, user, group, then size and times.
        owner_and_group = (self._owner, self._owner)
        return os.stat_result((status.st_mode | 0o777, *status[1:4], *owner_and_group, *status[6:]))

    def set_mode(self, path: AnyPath, mode: int) -> None:  # noqa: ARG002
        """Raise an error: modes cannot be set."""
        _refuse(errno.EPERM, path)


class ObservedFileSystem(FileSystem):
    """A file system that calls a function before every change of the disk.

    :param before: called with the name of the method.
    """

    allows_batches = False

    def __init__(self, before: Callable[[str], None]) -> None:
        self.before = before


def _observed_method(name: str) -> Callable[..., Any]:
    """Return a method that calls `ObservedFileSystem.before` first."""
    method = getattr(FileSystem, name)

    @wraps(method)
    def call(self: ObservedFileSystem, *arguments: Any) -> Any:
        self.before(name)
        return method(self, *arguments)

    return call


for _name in (
    "make_folder", "write", "set_mode", "remove_file", "remove_folder", "move", "replace",
    "exchange", "link", "reflink", "copy", "sync_file", "sync_folder", "sync_tree",
):  # fmt: skip
    setattr(ObservedFileSystem, _name, _observed_method(_name))


class Killed(BaseException):
    """Raised in place of the end of the process."""


class KillingFileSystem(ObservedFileSystem):
    """A file system that simulates the end of the process before a change of the disk.

    :param after: the number of changes that succeed before the first refused one.
    """

    def __init__(self, after: int) -> None:
        super().__init__(self._count_down)
        self.remaining_changes = after

    def _count_down(self, _: str) -> None:
        if self.remaining_changes == 0:
            raise Killed
        self.remaining_changes -= 1


class ReadOnlyFileSystem(ObservedFileSystem):
    """A file system that cannot be changed.

    :param after: the number of changes that succeed before the first refused one.
    """

    number = errno.EROFS
    refused = frozenset(
        (
            "make_folder", "write", "remove_file", "remove_folder", "move", "replace",
            "exchange", "link", "reflink", "copy", "set_mode",
        )
    )  # fmt: skip

    def __init__(self, after: int = 0) -> None:
        super().__init__(self._count_down)
        self.remaining_changes = after

    def _count_down(self, method: str) -> None:
        if self.remaining_changes <= 0 and method in self.refused:
            raise OSError(self.number, os.strerror(self.number), method)
        self.remaining_changes -= 1


class FullFileSystem(ReadOnlyFileSystem):
    """A full file system, on which files can only be moved and removed.

    :param after: the number of changes that succeed before the first refused one.
    """

    number = errno.ENOSPC
    refused = frozenset({"make_folder", "write", "link", "reflink", "copy"})
