"""One process at a time changes an environment.

The lock is made with the standard library alone: ``wheelfit recover`` needs it where what wheelfit
depends on is gone. Versions of wheelfit that used ``filelock`` lock the same file in the same way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from typing import TYPE_CHECKING

from wheelfit.errors import EnvironmentBusy, LinkInTheWay
from wheelfit.installation.environment_folders import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE = 10.0
"""Seconds to wait for another process by default."""

_INTERVAL = 0.05
"""Seconds between two attempts."""

_OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})
_HELD = frozenset({errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK})


@contextlib.contextmanager
def locked(folder: Path, *, patience: float = PATIENCE) -> Iterator[bool]:
    """Lock an environment for the length of a ``with`` block.

    Gives False, and holds nothing, where the file system cannot lock: refusing to install there
    would not help. The workplace of a change is the lock then.

    :param folder: the library folder of the environment; it exists.
    :raises EnvironmentBusy: another process still holds the lock after that.
    :raises LinkInTheWay: a link is in the place of the lock.
    :raises OSError: there is no room for a lock, nor for anything else.
    """
    path = folder / LOCK_FILE
    deadline = time.monotonic() + patience
    try:
        while (held := _acquire(str(path))) is None:
            if time.monotonic() >= deadline:
                raise EnvironmentBusy(
                    f"another process is changing the environment (waited {patience:g} s)",
                    where=str(path),
                    hint="try again when it has finished",
                )
            time.sleep(_INTERVAL)
    except (OSError, ImportError) as error:
        if getattr(error, "errno", None) in _OUT_OF:
            raise
        if path.is_symlink():
            raise LinkInTheWay(
                "a link is in the place of the lock of the environment, and is not followed",
                where=str(path),
                hint="nothing was changed; remove the link",
            ) from None
        # ENOLCK, ENOSYS, ENOTSUP: some network file systems. A folder that cannot be written at all
        # is found out, with a better message, by the next write.
        yield False
        return
    try:
        yield True
    finally:
        _release(held, str(path))


def _acquire(path: str) -> int | None:
    """Return the descriptor of the locked file; None if another process holds the lock.

    :raises OSError: there can be no lock.
    :raises ImportError: this Python has no file locks.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except PermissionError:
        if sys.platform == "win32":  # it is being removed
            return None
        raise
    is_ours = False
    try:
        _lock(descriptor)
        # The former holder has removed the file: this lock would guard no name.
        is_ours = os.fstat(descriptor).st_nlink > 0
    except OSError as error:
        if error.errno not in _HELD:
            raise
    finally:
        if not is_ours:
            os.close(descriptor)
    return descriptor if is_ours else None


if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        """Lock an open file, or raise an error at once."""
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _release(descriptor: int, path: str) -> None:
        """Unlock the file, and remove it unless the next process has it open."""
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

        A process that waits for it notices that it has no name any more, and makes a new one.
        """
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        os.close(descriptor)
