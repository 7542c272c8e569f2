"""The free space of a disk, and the message if there is not enough."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit_runtime.errors import os_reason

if TYPE_CHECKING:
    from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Values of ``OSError.errno`` for a full disk or an exhausted quota."""


def mount_point(path: Path) -> Path:
    """Return the mount point of the disk that contains a path, which need not exist."""
    folder = _nearest_existing(path)
    try:
        while folder != folder.parent and folder.stat().st_dev == folder.parent.stat().st_dev:
            folder = folder.parent
    except OSError:  # it was removed meanwhile, or may not be read
        return folder
    return folder


def free_space(path: Path) -> int:
    """Return the free bytes of the disk that contains a path, which need not exist."""
    return disk_space(path)[1]


def disk_space(path: Path) -> tuple[int, int]:
    """Return the used and free bytes of the disk that contains a path, which need not exist."""
    existing = _nearest_existing(path)
    if hasattr(os, "statvfs"):
        disk = os.statvfs(existing)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_bavail * disk.f_frsize
    import shutil

    usage = shutil.disk_usage(existing)
    return usage.used, usage.free


def no_space_message(path: Path, needed: int | None = None, *, error: OSError | None = None) -> str:
    """Return the message for a disk without enough space.

    :param path: where something would be written; it need not exist.
    :param needed: bytes; None where unknown.
    :param error: the error of the system; None: nothing was tried.
    """
    message = f"there is not enough space on the disk at {mount_point(path)}"
    # If the user's quota is used up, the free space of the disk says nothing.
    if error is not None and error.errno == errno.EDQUOT:
        return f"{message}: {os_reason(error)}"
    amounts = [] if needed is None else [f"{size_in_words(needed)} are needed"]
    try:
        amounts.append(f"{size_in_words(free_space(path))} are free")
    except OSError:
        amounts.append("the free space is unknown")
    return f"{message}: {' and '.join(amounts)}"


def _nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    existing = path.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    return existing
