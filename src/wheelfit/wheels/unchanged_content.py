"""Compare an unpacked wheel with its archive, byte by byte.

Sizes and times show the edits of honest programs. Where a hash is required, that is not enough: it
is the hash of the archive, so each file must have the content that it has in the archive.
"""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from wheelfit.wheels.record import encode_digest
from wheelfit.wheels.unpacked import TREE
from wheelfit.wheels.unpacking import promised_rows
from wheelfit_runtime.platforms.cache_folder import own_users

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wheelfit.wheels.archive import WheelArchive
    from wheelfit.wheels.unpacked import UnpackedFile, UnpackedWheel

_OPEN = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_THREADS = 4
_LARGE = 1 << 20  # bytes of files that are worth several threads
_PIECE = 1 << 20


def differing_file(wheel: UnpackedWheel, archive: WheelArchive) -> str | None:
    """Return the name of a file that differs from the archive; None if none does.

    Names, contents and permissions are compared with the archive, and so is the wheel's manifest,
    which need not be trusted.

    :raises InvalidWheel: the archive is not sound.
    """
    members = [member for member in archive.members if not member.is_folder]
    names = tuple(member.name for member in members)
    if wheel.dist_info != archive.dist_info:
        return wheel.dist_info
    if tuple(wheel.files.names) != names:
        return next(iter(set(names).symmetric_difference(wheel.files.names)), names[0])
    promises = promised_rows(archive)
    described: dict[str, UnpackedFile] = {}
    for member in members:
        file = described[member.name] = wheel.files[member.name]
        promise = promises.get(member.name)
        if promise is None:  # RECORD itself, and signatures
            digest = encode_digest(hashlib.sha256(archive.read(member.name)).digest())
            promised = f"sha256={digest}"
        else:
            promised = promise.hash
        if (file.row.hash, file.size, file.executable) != (
            promised,
            member.size,
            member.is_executable,
        ):
            return member.name
    # The largest first, so that no thread begins with one when the others are done.
    ordered = sorted(names, key=lambda name: described[name].size, reverse=True)
    tree = str(wheel.folder / TREE) + os.sep
    own = own_users()

    def first(part: Iterable[str]) -> str | None:
        return next(
            (name for name in part if not _holds(tree + name, described[name], wheel.umask, own)),
            None,
        )

    if sum(file.size for file in described.values()) < _LARGE:
        return first(ordered)  # threads would take longer to start
    with ThreadPoolExecutor(_THREADS) as threads:
        differing = list(
            threads.map(first, (ordered[start::_THREADS] for start in range(_THREADS)))
        )
    return next((name for name in differing if name is not None), None)


def _holds(path: str, file: UnpackedFile, umask: int, own: Collection[int]) -> bool:
    """Return whether a file has the content with which it was written, and is safe to link."""
    algorithm, _, digest = file.row.hash.partition("=")
    open_to = 0o7022 & ~(0o666 & ~umask)  # what a hard link would give to others with the file
    try:
        number = os.open(path, _OPEN)
    except OSError:
        return False
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size != file.size:
            return False
        if os.name == "posix" and (status.st_uid not in own or status.st_mode & open_to):
            return False
        seen = hashlib.new(algorithm)
        left = file.size + 1  # one more shows that nothing was added meanwhile
        while data := os.read(number, min(left, _PIECE)):
            seen.update(data)
            left -= len(data)
        return left == 1 and encode_digest(seen.digest()) == digest
    except OSError:
        return False
    finally:
        os.close(number)
