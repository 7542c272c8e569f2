"""Comparison of an unpacked wheel with its archive, byte by byte.

Sizes and times reveal ordinary edits. But required hashes are those of archives, so where they are
given, each file must have the content that it has in the archive.
"""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from wheelfit.wheels.record import encode_digest
from wheelfit.wheels.unpacked import TREE, UnpackedFile, UnpackedWheel
from wheelfit.wheels.unpacking import record_rows
from wheelfit_runtime.platforms.cache_folder import own_users

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wheelfit.wheels.archive import WheelArchive

_OPEN = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_THREADS = 4
_LARGE = 1 << 20  # bytes of all files from which several threads are faster
_PIECE = 1 << 20


def differing_file(wheel: UnpackedWheel, archive: WheelArchive) -> str | None:
    """Return the name of a file that differs from the archive; None if none does.

    Names, contents and permissions are compared with the archive. The wheel's manifest is not
    trusted, but compared as well.

    :raises InvalidWheel: the archive is not valid.
    """
    members = [member for member in archive.members if not member.is_folder]
    names = tuple(member.name for member in members)
    if wheel.dist_info != archive.dist_info:
        return wheel.dist_info
    if tuple(wheel.files.names) != names:
        return next(iter(set(names).symmetric_difference(wheel.files.names)), names[0])
    rows = record_rows(archive)
    files: dict[str, UnpackedFile] = {}
    for member in members:
        file = files[member.name] = wheel.files[member.name]
        row = rows.get(member.name)
        if row is None:  # RECORD itself, and signatures
            digest = encode_digest(hashlib.sha256(archive.read(member.name)).digest())
            expected_hash = f"sha256={digest}"
        else:
            expected_hash = row.hash
        if (file.row.hash, file.size, file.executable) != (
            expected_hash,
            member.size,
            member.is_executable,
        ):
            return member.name
    # The largest first, so that all threads end at about the same time.
    largest_first = sorted(names, key=lambda name: files[name].size, reverse=True)
    tree = str(wheel.folder / TREE) + os.sep
    own_ids = own_users()

    def first_differing(part: Iterable[str]) -> str | None:
        return next(
            (
                name
                for name in part
                if not _is_unchanged(tree + name, files[name], wheel.umask, own_ids)
            ),
            None,
        )

    if sum(file.size for file in files.values()) < _LARGE:
        return first_differing(largest_first)  # threads would take longer to start
    with ThreadPoolExecutor(_THREADS) as pool:
        differing = list(
            pool.map(first_differing, (largest_first[start::_THREADS] for start in range(_THREADS)))
        )
    return next((name for name in differing if name is not None), None)


def _is_unchanged(path: str, file: UnpackedFile, umask: int, own_ids: Collection[int]) -> bool:
    """Return whether a file has the content of its row in RECORD, and is safe to link."""
    algorithm, _, digest = file.row.hash.partition("=")
    # Permissions that a hard link would give to other users.
    forbidden_mode = 0o7022 & ~(0o666 & ~umask)
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != file.size:
            return False
        if os.name == "posix" and (status.st_uid not in own_ids or status.st_mode & forbidden_mode):
            return False
        actual = hashlib.new(algorithm)
        bytes_left = file.size + 1  # one more, to detect a byte that was added meanwhile
        while data := os.read(descriptor, min(bytes_left, _PIECE)):
            actual.update(data)
            bytes_left -= len(data)
        return bytes_left == 1 and encode_digest(actual.digest()) == digest
    except OSError:
        return False
    finally:
        os.close(descriptor)
