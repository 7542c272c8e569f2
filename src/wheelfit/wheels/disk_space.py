"""Disks without room: which one it is, how much is needed, and how much is free."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words

if TYPE_CHECKING:
    from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of the system by which a disk takes nothing more."""


def mount_point(path: Path) -> Path:
    """Return the folder at which the disk of a path begins."""
    place = _existing(path)
    try:
        while place != place.parent and place.stat().st_dev == place.parent.stat().st_dev:
            place = place.parent
    except OSError:  # it was removed meanwhile, or may not be read
        return place
    return place


def free_space(path: Path) -> int:
    """Return the bytes that are free on the disk of a path."""
    return disk_space(path)[1]


def disk_space(path: Path) -> tuple[int, int]:
    """Return the bytes that are used and free on the disk of a path."""
    place = _existing(path)
    if hasattr(os, "statvfs"):
        disk = os.statvfs(place)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_bavail * disk.f_frsize
    import shutil

    usage = shutil.disk_usage(place)
    return usage.used, usage.free


def no_space_in_words(
    path: Path, needed: int | None = None, *, error: OSError | None = None
) -> str:
    """Return that a disk has not enough space, with its name and both amounts.

    :param needed: bytes; None where unknown.
    :param error: the error of the system; None: nothing was tried.
    """
    words = f"there is not enough space on the disk at {mount_point(path)}"
    if error is not None and error.errno == errno.EDQUOT:  # what is free is for others
        return f"{words}: {error.strerror}"
    amounts = [] if needed is None else [f"{size_in_words(needed)} are needed"]
    try:
        amounts.append(f"{size_in_words(free_space(path))} are free")
    except OSError:
        amounts.append("nobody knows how much is free")
    return f"{words}: {' and '.join(amounts)}"


def _existing(path: Path) -> Path:
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place
