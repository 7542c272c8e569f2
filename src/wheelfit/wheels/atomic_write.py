"""Write files atomically: a reader gets the old content or all of the new one."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from wheelfit.errors import reporting_os_errors
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def new_file(destination: Path, *, overwrite: bool, sync: bool = True) -> Iterator[BinaryIO]:
    """Yield an unbuffered temporary file that gets its name when the block succeeds (B-31).

    Write to it with `write_all`. Its bytes are on the disk before the name is. After any error
    there is no file.

    :param destination: the path of the file; its folder exists.
    :param sync: whether to wait until it is on the disk.
    :raises FileProblem: the file exists already, or cannot be written.
    """
    if not overwrite and destination.exists():
        raise _exists(destination)
    with (
        reporting_os_errors("the file cannot be written", where=str(destination)),
        _complete_file(destination, overwrite=overwrite, sync=sync) as file,
    ):
        yield file


def write_file(
    path: Path, data: bytes, *, overwrite: bool = True, private: bool = False, sync: bool = True
) -> None:
    """Write a whole file; after an error the old content is unchanged.

    :param private: whether only its owner may read it.
    :param sync: whether to wait until it is on the disk; not needed if its loss does no harm.
    :raises FileProblem: the file exists already.
    :raises OSError: it cannot be written.
    """
    with _complete_file(path, overwrite=overwrite, sync=sync, private=private) as file:
        write_all(file, data)


@contextmanager
def _complete_file(
    destination: Path, *, overwrite: bool, sync: bool, private: bool = False
) -> Iterator[BinaryIO]:
    # Not tempfile, whose files are readable by their owner only.
    temporary = destination.with_name(f".{os.urandom(8).hex()}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
        with os.fdopen(descriptor, "w+b", buffering=0) as file:
            yield file
            if sync:
                os.fsync(file.fileno())
        move_into_place(temporary, destination, overwrite=overwrite, sync=sync)
    finally:
        temporary.unlink(missing_ok=True)


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all bytes to an unbuffered file, which may accept fewer at a time."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def move_into_place(
    temporary: Path, destination: Path, *, overwrite: bool, sync: bool = True
) -> None:
    """Move a complete file to its path, in the same file system.

    :param sync: whether to wait until the name is on the disk.
    :raises FileProblem: the destination exists already.
    :raises OSError: it cannot be moved.
    """
    if overwrite:
        temporary.replace(destination)
    else:
        try:
            # Unlike a rename, a link never replaces a file that was created meanwhile.
            destination.hardlink_to(temporary)
        except FileExistsError:
            raise _exists(destination) from None
        except OSError:
            temporary.replace(destination)  # a file system without hard links
    if sync:
        sync_to_disk(destination.parent)


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, if the system can do that."""
    with suppress(OSError):  # Windows cannot open folders, and does not need it
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exists(destination: Path) -> FileProblem:
    return FileProblem(
        "the file already exists",
        where=str(destination),
        hint="--overwrite replaces it; or choose another folder",
    )
