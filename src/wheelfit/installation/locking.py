"""One process at a time changes an environment.

The lock needs only the standard library, since ``wheelfit recover`` must work if the dependencies
of wheelfit are missing. Versions of wheelfit that used ``filelock`` lock the same file in the same
way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from typing import TYPE_CHECKING

from wheelfit.errors import EnvironmentBusy, LinkRefused
from wheelfit.installation.environment_folders import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_TIMEOUT = 10.0
"""Seconds to wait for another process by default."""

_POLL_INTERVAL = 0.05
"""Seconds between two attempts."""

_NO_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})
_LOCKED_BY_OTHERS = frozenset({errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK})


@contextlib.contextmanager
def locked(folder: Path, *, lock_timeout: float = LOCK_TIMEOUT) -> Iterator[bool]:
    """Lock an environment for the length of a ``with`` block.

    Yields False if the file system has no locks. Then the folder of staged files, which a change
    creates in the library folder, prevents other changes.

    :param folder: the library folder of the environment; it exists.
    :param lock_timeout: seconds to wait for another process.
    :raises EnvironmentBusy: another process still holds the lock after that.
    :raises LinkRefused: a link is in the place of the lock.
    :raises OSError: the system lacks disk space, memory or file descriptors.
    """
    path = folder / LOCK_FILE
    deadline = time.monotonic() + lock_timeout
    try:
        while (descriptor := _acquire(str(path))) is None:
            if time.monotonic() >= deadline:
                raise EnvironmentBusy(
                    f"another process is changing the environment (waited {lock_timeout:g} s)",
                    where=str(path),
                    hint="try again when it has finished",
                )
            time.sleep(_POLL_INTERVAL)
    except (OSError, ImportError) as error:
        if getattr(error, "errno", None) in _NO_RESOURCES:
            raise
        if path.is_symlink():
            raise LinkRefused(
                "a link is in the place of the lock of the environment, and is not followed",
                where=str(path),
                hint="nothing was changed; remove the link",
            ) from None
        # ENOLCK, ENOSYS, ENOTSUP: some network file systems. For a folder that cannot be written at
        # all, the next write raises a better error.
        yield False
        return
    try:
        yield True
    finally:
        _release(descriptor, str(path))


def _acquire(path: str) -> int | None:
    """Return the descriptor of the locked file; None if another process holds the lock.

    :raises OSError: the file cannot be locked.
    :raises ImportError: this Python has no file locks.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except PermissionError:
        if sys.platform == "win32":  # it is being removed
            return None
        raise
    is_acquired = False
    try:
        _lock(descriptor)
        # The previous holder may have removed the file, so that others would lock a new one.
        is_acquired = os.fstat(descriptor).st_nlink > 0
    except OSError as error:
        if error.errno not in _LOCKED_BY_OTHERS:
            raise
    finally:
        if not is_acquired:
            os.close(descriptor)
    return descriptor if is_acquired else None


if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        """Lock an open file, or raise an error at once."""
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _release(descriptor: int, path: str) -> None:
        """Unlock the file, and remove it unless another process has it open."""
        os.close(descriptor)
        with contextlib.suppress(OSError):  # Windows removes no file that is open
            os.unlink(path)  # noqa: PTH108

else:

    def _lock(descriptor: int) -> None:
        """Lock an open file, or raise an error at once."""
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release(descriptor: int, path: str) -> None:
        """Remove the file while it is locked, and unlock it.

        A waiting process notices that the file was removed, and creates a new one.
        """
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        os.close(descriptor)
