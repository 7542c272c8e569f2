"""Write a file so that its name never stands for half of it."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from wheelfit.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


__all__ = ["new_file", "write_all"]


def __dir__() -> list[str]:
    return __all__


@contextmanager
def new_file(destination: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Give a temporary file that gets its name when the block ends well (B-31).

    It has no buffer; use `write_all`.

    Its bytes are on the disk before the name is. On any error nothing is left.

    :param destination: where the file will be; its folder exists.
    :param overwrite: whether it may take the place of another file.
    :raises FileProblem: it exists already, or cannot be written.
    """
    if not overwrite and destination.exists():
        raise _exists(destination)
    # Not tempfile, whose files are readable by their owner only.
    temporary = destination.with_name(f".{os.urandom(8).hex()}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        try:
            with os.fdopen(os.open(temporary, flags, 0o666), "w+b", buffering=0) as file:
                yield file
                os.fsync(file.fileno())
            _give_name(temporary, destination, overwrite=overwrite)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FileProblem(
            f"it cannot be written: {error.strerror or type(error).__name__}",
            where=str(destination),
        ) from error


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write to a file without a buffer, which may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _give_name(temporary: Path, destination: Path, *, overwrite: bool) -> None:
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
    with suppress(OSError):  # Windows cannot open folders, and does not need it
        number = os.open(destination.parent, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _exists(destination: Path) -> FileProblem:
    return FileProblem(
        "the file exists already",
        where=str(destination),
        hint="say explicitly that it may be overwritten, or choose another folder",
    )
