"""Temporary folders of commands, and the removal of those of killed processes."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wheelfit_runtime.errors import FileProblem, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows, where folders cannot be locked: there nothing is cleared away
    _CAN_LOCK = False
else:
    _CAN_LOCK = True

_PREFIX: Final = "wheelfit-change-"
# As tempfile names them, so that folders with chosen names are never touched.
_OURS: Final = re.compile(re.escape(_PREFIX) + "[a-z0-9_]{8}")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty folder for the length of a ``with`` block, then remove it.

    Its lock shows other processes that it is in use.

    :raises FileProblem: none can be created.
    """
    clear_abandoned()
    while True:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        except OSError as error:
            from wheelfit.wheels.disk_space import FULL, no_space_message

            why = os_reason(error)
            if error.errno in FULL:
                why = no_space_message(Path(error.filename), error=error)
            raise FileProblem(
                f"no temporary folder can be created: {why}",
                where=error.filename,
                hint="make room, or set TMPDIR to another folder",
            ) from None
        lock = _lock(folder)
        # In the moment before it is locked, another process may remove the folder as abandoned.
        was_removed = lock is None and _CAN_LOCK and not folder.is_dir()
        if not was_removed:
            break
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def clear_abandoned() -> None:
    """Remove the folders of processes that were killed."""
    if not _CAN_LOCK:
        return
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for path in [entry.path for entry in entries if _OURS.fullmatch(entry.name)]:
            lock = _lock(Path(path))
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder of ours without waiting; None if it is in use, gone, or not ours."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (OSError, AttributeError):
        return None
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(folder.lstat(), status):
                return descriptor
    except OSError:  # in use, or removed meanwhile, or a file system without locks
        pass
    os.close(descriptor)
    return None
