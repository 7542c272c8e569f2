"""Write a file so that its name never stands for half of it."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def new_file(destination: Path, *, overwrite: bool, sync: bool = True) -> Iterator[BinaryIO]:
    """Yield a temporary file that gets its name when the block ends well (B-31).

    It has no buffer; use `write_all`.

    Its bytes are on the disk before the name is. On any error nothing is left, and where the
    system has files without names, nothing is left of a process that was killed either.

    :param destination: the path of the file; its folder exists.
    :param overwrite: whether it may take the place of another file.
    :param sync: whether to wait until the disk has it.
    :raises FileProblem: it exists already, or cannot be written.
    """
    if not overwrite and destination.exists():
        raise _exists(destination)
    try:
        with _complete_file(destination, overwrite=overwrite, sync=sync) as file:
            yield file
    except OSError as error:
        raise FileProblem(
            f"the file cannot be written: {error.strerror or type(error).__name__}",
            where=str(destination),
        ) from error


def write_file(
    path: Path, data: bytes, *, overwrite: bool = True, private: bool = False, sync: bool = True
) -> None:
    """Write a whole file: afterwards there is all of it, or the old content.

    :param private: whether only its owner may read it.
    :param sync: whether to wait until the disk has it; not for what may be lost.
    :raises FileProblem: there is a file of that name, and it must stay.
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
    mode = 0o600 if private else 0o666
    try:
        number = _without_name(destination.parent, mode)
        named = number is None
        if number is None:
            number = os.open(temporary, flags, mode)
        with os.fdopen(number, "w+b", buffering=0) as file:
            yield file
            if sync:
                os.fsync(file.fileno())
            if not named:
                _link(file.fileno(), temporary)
        give_name(temporary, destination, overwrite=overwrite, sync=sync)
    finally:
        temporary.unlink(missing_ok=True)


_NUMBERS = Path("/proc/self/fd")


def _without_name(folder: Path, mode: int) -> int | None:
    """Open a new file that has no name yet; None where there are no such files."""
    flag = getattr(os, "O_TMPFILE", 0)
    if flag and _NUMBERS.is_dir():
        with suppress(OSError):  # opening a named file reports the fault better
            return os.open(folder, flag | os.O_RDWR, mode)
    return None


def _link(number: int, path: Path) -> None:
    """Name an open file that has no name."""
    # With the number of a folder Python makes the call that follows the link; it is not used.
    os.link(_NUMBERS / str(number), path, src_dir_fd=number)


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all bytes to an unbuffered file, which may accept fewer at a time."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def give_name(temporary: Path, destination: Path, *, overwrite: bool, sync: bool = True) -> None:
    """Move a complete file to its name, in the same file system.

    :param overwrite: whether another file gives way.
    :param sync: whether to wait until the disk has the name.
    :raises FileProblem: there is a file of that name.
    :raises OSError: it cannot be moved.
    """
    if overwrite:
        temporary.replace(destination)
    else:
        try:
            # Unlike a rename, a link never takes the place of a file that came meanwhile.
            destination.hardlink_to(temporary)
        except FileExistsError:
            raise _exists(destination) from None
        except OSError:
            temporary.replace(destination)  # a file system without hard links
    if sync:
        sync_to_disk(destination.parent)


def sync_to_disk(path: Path) -> None:
    """Wait until the disk has a file, or the names in a folder, where the system can do that."""
    with suppress(OSError):  # Windows cannot open folders, and does not need it
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _exists(destination: Path) -> FileProblem:
    return FileProblem(
        "the file already exists",
        where=str(destination),
        hint="--overwrite replaces it; or choose another folder",
    )
