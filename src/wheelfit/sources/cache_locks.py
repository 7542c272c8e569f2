"""Locks on cache entries in use; no call waits.

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

    from wheelfit.wheels.file_system import AnyPath

_MOST = 256


class Holder:
    """The locks of a process on cache entries, until it is closed.

    Their number is limited, since other code needs descriptors too. Files beyond it may be removed
    by a clean-up at the same time; then their use raises an error.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def hold(self, path: AnyPath) -> bool:
        """Lock a file or folder; return False if it does not exist, or is being removed.

        :param path: nothing is written to it.
        """
        if fcntl is None:
            return os.path.lexists(path)
        if len(self._descriptors) >= _MOST:
            return os.path.lexists(path)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return False
        self._descriptors.append(descriptor)
        return hold_open(descriptor) and _is_still(descriptor, path)

    def close(self) -> None:
        """Release every lock."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def _is_still(descriptor: int, path: AnyPath) -> bool:
    """Return whether a path names an open file, which may have been removed before the lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116
    except OSError:
        return False


def hold_open(descriptor: int, *, alone: bool = False) -> bool:
    """Lock an open file until it is closed; return False if another process prevents that.

    :param alone: whether the lock is exclusive; a shared one only protects from removal.
    """
    if fcntl is not None:
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # no locks here
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
        yield hold_open(descriptor, alone=True)
    finally:
        os.close(descriptor)
