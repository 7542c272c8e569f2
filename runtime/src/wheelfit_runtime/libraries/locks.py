"""Wait while another process does the same: that saves a second download, and nothing else."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wheelfit_runtime.libraries.files import FILE_MODE, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit_runtime.libraries.store import Store

_LONGEST_WAIT = 1800.0
_PAUSE = 0.05


@contextmanager
def locked(store: Store, name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Wait while another process does the same; go on without waiting where that cannot be."""
    file = _locked(f"{store.root}/locks", f"{name.replace('/', '_')}.lock", waiting)
    try:
        yield
    finally:
        if file is not None:
            _unlock(file)


def _locked(folder: str, name: str, waiting: Callable[[], None]) -> int | None:
    try:
        import fcntl  # noqa: PLC0415 - not everywhere

        make_folder(folder)
        file = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except (ImportError, OSError):
        return None
    end = time.monotonic() + _LONGEST_WAIT
    while time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            time.sleep(_PAUSE)
        except OSError:
            break  # a file system without locks
        else:
            return file
    os.close(file)
    return None


def _unlock(file: int) -> None:
    import fcntl  # noqa: PLC0415

    # Closing is not enough: a process that was forked meanwhile has the file open too.
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)
