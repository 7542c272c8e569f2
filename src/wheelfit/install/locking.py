"""One process at a time changes an environment."""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from wheelfit.errors import EnvironmentBusy
from wheelfit.install.places import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["LOCK_FILE", "PATIENCE", "locked"]


def __dir__() -> list[str]:
    return __all__


PATIENCE = 10.0
"""Seconds to wait for another process by default."""

_OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})


@contextlib.contextmanager
def locked(folder: Path, *, patience: float = PATIENCE) -> Iterator[bool]:
    """Hold the lock of an environment for the length of a ``with`` block.

    Gives False, and holds nothing, where the file system cannot lock: refusing to install
    there would help nobody. The workplace of a change is the lock then.

    :param folder: the library folder of the environment; it exists.
    :param patience: seconds to wait for another process.
    :raises EnvironmentBusy: another process still holds the lock after that.
    :raises OSError: there is no room for a lock, nor for anything else.
    """
    path = folder / LOCK_FILE
    lock = FileLock(path, timeout=patience, poll_interval=0.05, fallback_to_soft=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lock.acquire()
    except Timeout:
        raise EnvironmentBusy(
            f"another process is changing the environment (waited {patience:g} s)",
            where=str(path),
            hint="try again when it has finished",
        ) from None
    except (OSError, NotImplementedError) as error:
        if getattr(error, "errno", None) in _OUT_OF:
            raise
        # ENOLCK, ENOSYS, ENOTSUP: some network file systems. A folder that cannot be
        # written at all is found out, with a better message, by whoever writes next.
        yield False
        return
    try:
        yield True
    finally:
        # Removed while held: a process waiting on the removed file notices that it has no
        # name any more and starts over with a new one.
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108
        lock.release()
