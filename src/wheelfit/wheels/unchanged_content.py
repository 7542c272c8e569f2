"""Comparison of an unpacked wheel with its archive, byte by byte.

Sizes and times reveal ordinary edits. But required hashes are those of archives, so where they are
given, each file must have the content that it has in the archive.
"""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from wheelfit.wheels.processors import processor_count
from wheelfit.wheels.record import encode_digest
from wheelfit.wheels.unpacked import TREE, UnpackedWheel
from wheelfit.wheels.unpacking import record_rows
from wheelfit_runtime.platforms.cache_folder import own_users

if TYPE_CHECKING:
    from collections.abc import Collection
    from concurrent.futures import Future

    from wheelfit.wheels.archive import WheelArchive

_OPEN = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_PIECE = 1 << 20
_LARGE = 16 << 20
"""Bytes from which it is worthwhile to hash a file in another thread."""


def differing_file(wheel: UnpackedWheel, archive: WheelArchive) -> str | None:
    """Return the name of a file or folder that differs from the archive; None if none does.

    Names, contents, permissions and owners are compared. The wheel's manifest is not trusted, but
    compared as well.

    :raises InvalidWheel: the archive is not valid.
    """
    members = [member for member in archive.members if not member.is_folder]
    names = [member.name for member in members]
    files = wheel.files
    if wheel.dist_info != archive.dist_info:
        return wheel.dist_info
    if list(files.names) != names:
        return next(iter(set(names).symmetric_difference(files.names)), names[0])
    if (folder := wheel.foreign_folder()) is not None:
        return folder
    rows = record_rows(archive)
    tree = str(wheel.folder / TREE) + os.sep
    # Permissions that a hard link would give to other users.
    forbidden_mode = 0o7022 & ~(0o666 & ~wheel.umask)
    has_content = partial(_has_content, forbidden_mode=forbidden_mode, own_ids=own_users())
    large: dict[str, Future[bool]] = {}
    with ThreadPoolExecutor(processor_count()) as threads:
        for member, stated_hash, size, flag in zip(
            members, files.hashes, files.sizes, files.executable_flags, strict=True
        ):
            name = member.name
            row = rows.get(name)
            if row is None:  # RECORD itself, and signatures
                digest = encode_digest(hashlib.sha256(archive.read(name)).digest())
                expected_hash = f"sha256={digest}"
            else:
                expected_hash = row.hash
            is_stated = stated_hash == expected_hash and size == member.size
            if not is_stated or (flag == "x") != member.is_executable:
                return name
            if size >= _LARGE:
                large[name] = threads.submit(has_content, tree + name, expected_hash, size)
            elif not has_content(tree + name, expected_hash, size):
                return name
        return next((name for name, is_same in large.items() if not is_same.result()), None)


def _has_content(
    path: str, expected_hash: str, size: int, *, forbidden_mode: int, own_ids: Collection[int]
) -> bool:
    """Return whether a file has the content of its row in RECORD, and is safe to link."""
    algorithm, _, digest = expected_hash.partition("=")
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return False
        if os.name == "posix" and (status.st_uid not in own_ids or status.st_mode & forbidden_mode):
            return False
        # One byte more than it should have, to detect one that was added meanwhile.
        data = os.read(descriptor, min(size + 1, _PIECE))
        actual = getattr(hashlib, algorithm)(data)
        bytes_left = size - len(data)
        while bytes_left > 0 and (data := os.read(descriptor, min(bytes_left + 1, _PIECE))):
            actual.update(data)
            bytes_left -= len(data)
        return bytes_left == 0 and encode_digest(actual.digest()) == digest
    except OSError:
        return False
    finally:
        os.close(descriptor)
