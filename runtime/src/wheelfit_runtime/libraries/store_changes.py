"""Change a store: a wheel is added and removed by one rename of its folder."""

# Paths are text here, as in `store`.
# ruff: noqa: PTH104, PTH112, PTH116, PTH118, PTH120, PTH208
from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import NotInStore, StoreUnavailable, os_reason
from wheelfit_runtime.libraries import settings
from wheelfit_runtime.libraries.files import FILE_MODE, make_folder, unique_name
from wheelfit_runtime.libraries.store import Store, StoredWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit_runtime.libraries.request import LibraryRequest


_MAX_AGE = 24 * 3600.0
"""Seconds after which a temporary folder belongs to a killed process."""


def is_writable(store: Store) -> bool:
    """Return whether the user's own store can be written, or created."""
    folder = store.root
    while not os.path.lexists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


@contextmanager
def working_folder(store: Store) -> Iterator[str]:
    """Yield a temporary folder in the store, and remove it in the end."""
    remove_leftovers(store)
    folder = os.path.join(store.root, "partial", unique_name())
    try:
        make_folder(folder)
    except OSError as error:
        raise unwritable_store_error(store.root, error) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def add_wheel(store: Store, folder: str, sha256: str) -> StoredWheel:
    """Add a wheel to the store, unless it exists already.

    :param folder: the folder with ``tree`` and ``wheel.txt``, below a `working_folder`.
    """
    target = os.path.join(store.root, "store", sha256)
    move_into_place(folder, target)
    _fsync_folder(os.path.dirname(target))
    return StoredWheel(target, is_own=True)


def move_into_place(folder: str, target: str) -> None:
    """Move a folder to its path; a folder that exists there has the same content, and is kept."""
    make_folder(os.path.dirname(target))
    try:
        os.rename(folder, target)
    except OSError:
        if not os.path.isdir(target):
            raise


def remove_wheel(store: Store, entry: StoredWheel) -> None:
    """Remove a wheel of the user's own store, by one rename before its files are deleted."""
    parent = os.path.join(store.root, "partial")
    make_folder(parent)
    trash = os.path.join(parent, unique_name())
    os.rename(entry.folder, trash)
    shutil.rmtree(trash, ignore_errors=True)


def touch_wheel(entry: StoredWheel) -> None:
    """Set the time of a wheel to now, so that it is not removed before it is chosen."""
    with suppress(OSError):
        os.utime(entry.folder)


def remove_leftovers(store: Store) -> None:
    """Remove the temporary folders of killed processes."""
    folder = os.path.join(store.root, "partial")
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with suppress(OSError):
                if time.time() - os.stat(path).st_mtime > _MAX_AGE:
                    shutil.rmtree(path, ignore_errors=True)


def unwritable_store_error(root: str, error: OSError) -> StoreUnavailable:
    """Return the error for a store that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable(
            "no space left on the disk of the library store",
            where=root,
            note="all partly written files were removed",
            hint="free space (python -m wheelfit_runtime store gc), or set WHEELFIT_LIBRARY_STORE",
        )
    return StoreUnavailable(
        f"the library store cannot be written: {os_reason(error)}",
        where=root,
        hint="set WHEELFIT_LIBRARY_STORE to a writable folder, or have the libraries added to a "
        "store of the site (WHEELFIT_LIBRARY_SITES)",
    )


def not_in_store_error(request: LibraryRequest, note: str) -> NotInStore:
    """Return the error for a missing library where fetching is not allowed."""
    arguments = [request.family.name, request.version, *request.components]
    driver = request.driver
    if driver is not None and driver.cuda is not None and request.version == str(driver.cuda[0]):
        # The version may come from this driver; a machine with a network may have another one.
        arguments += ["--driver", driver.version]
    if request.lock is not None:
        arguments += ["--lock", request.lock]
    variable = ""
    if request.store.root != settings.store_folder(request.environ):
        variable = f"WHEELFIT_LIBRARY_STORE={request.store.root} "
    return NotInStore(
        f"{request} ({', '.join(request.components)}) is not in the store, and nothing may be "
        "fetched",
        where=request.store.root,
        note=note,
        hint=f"with a network: {variable}python -m wheelfit_runtime store prefetch "
        f"{' '.join(arguments)}",
    )


def _fsync_folder(folder: str) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_MAX_WAIT = 1800.0  # seconds
_PAUSE = 0.05  # seconds between two attempts to get a lock


@contextmanager
def locked(store: Store, name: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Run a block under a lock, which only avoids duplicate downloads.

    It runs without the lock if files cannot be locked, or after half an hour of waiting.

    :param on_wait: called repeatedly while another process has the lock.
    """
    descriptor = _lock_file(f"{store.root}/locks", f"{name.replace('/', '_')}.lock", on_wait)
    try:
        yield
    finally:
        if descriptor is not None:
            _unlock(descriptor)


def _lock_file(folder: str, name: str, on_wait: Callable[[], None]) -> int | None:
    try:
        import fcntl

        make_folder(folder)
        descriptor = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    except (ImportError, OSError):
        return None
    end = time.monotonic() + _MAX_WAIT
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            time.sleep(_PAUSE)
        except OSError:
            break  # a file system without locks
        else:
            return descriptor
    os.close(descriptor)
    return None


def _unlock(descriptor: int) -> None:
    import fcntl

    # Closing is not enough, as a process forked meanwhile has the file open too.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
