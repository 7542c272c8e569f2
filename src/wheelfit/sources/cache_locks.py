"""Locks on cache entries in use, none of which is waited for.

A process locks the files that it writes or is about to link, and a clean-up skips locked files. A
lock ends with its process at the latest. If the file system or operating system has no such locks,
no file counts as locked.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.wheels.disk_operations import AnyPath

_MAX_LOCKS = 256


class EntryLocks:
    """The shared locks of a process on cache entries, until it is closed.

    Their number is limited, since other code needs descriptors too. Files beyond it may be removed
    by a clean-up at the same time; then their use raises an error.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def lock(self, path: AnyPath) -> bool:
        """Lock a file or folder; return False if it does not exist, or is being removed."""
        if fcntl is None:
            return os.path.lexists(path)
        if len(self._descriptors) >= _MAX_LOCKS:
            return os.path.lexists(path)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return False
        self._descriptors.append(descriptor)
        return lock_open_file(descriptor) and _is_open_file(path, descriptor)

    def close(self) -> None:
        """Release every lock."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def _is_open_file(path: AnyPath, descriptor: int) -> bool:
    """Return whether a path names an open file, which may have been removed before the lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116
    except OSError:
        return False


def lock_open_file(descriptor: int, *, exclusive: bool = False) -> bool:
    """Lock an open file until it is closed; return False if the lock of another process forbids it.

    :param exclusive: whether the lock is exclusive; a shared one only protects from removal.
    """
    if fcntl is not None:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # this file system has no locks
    return True


@contextmanager
def exclusive_lock(path: AnyPath) -> Iterator[bool]:
    """Lock an entry exclusively for the length of a ``with`` block.

    Yields False if another process has locked it.

    :param path: a file or folder; a link is not followed.
    """
    descriptor = None
    if fcntl is not None:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    if descriptor is None:
        yield True
        return
    try:
        yield lock_open_file(descriptor, exclusive=True)
    finally:
        os.close(descriptor)
