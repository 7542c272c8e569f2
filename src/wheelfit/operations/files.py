"""Files and folders that operations write, and the time stamp of reproducible files."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE, S_IWUSR
from typing import TYPE_CHECKING

from wheelfit.errors import reporting_os_errors
from wheelfit.wheels.atomic_write import write_file
from wheelfit_runtime.errors import FileProblem, UserError, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def write_atomically(name: str, data: bytes, *, replace: bool = True) -> None:
    """Write data to a file atomically; a failure leaves the old content.

    A link to a file stays, and so does a device or a pipe, which receives the data. A dangling link
    is refused: one that came with a project could create a file anywhere.

    :param name: path of the file; its folder must exist.
    :param replace: whether an existing file is replaced.
    :raises FileProblem: it cannot be written, or exists and must stay.
    """
    path = Path(name)
    if replace and path.exists() and not (path.is_file() or path.is_dir()):
        # A special file, such as /dev/stdout, cannot be replaced by a new one.
        with reporting_os_errors("the file cannot be written", where=name):
            path.write_bytes(data)
        return
    if replace:
        path = _without_link(path)
    try:
        write_file(path, data, overwrite=replace)
    except FileProblem:
        raise FileProblem(
            "the file already exists", where=name, hint="name another, or give --force"
        ) from None
    except OSError as error:
        raise FileProblem(f"the file cannot be written: {os_reason(error)}", where=name) from None


def write_files(contents: Mapping[str, bytes]) -> None:
    """Write files as `write_atomically` does; after an error or Ctrl-C, none of them has changed.

    :param contents: the content of each file, by its path.
    """
    from wheelfit.building.staging import Staging

    if len(contents) == 1:  # it may be a device
        write_atomically(*next(iter(contents.items())))
        return
    with Staging() as staging:
        results: dict[Path, Path] = {}
        for name, data in contents.items():
            path = _without_link(Path(name))
            results[path] = staging.new_folder(path.parent) / path.name
            with reporting_os_errors("the file cannot be written", where=name):
                write_file(results[path], data)
        pairs = [(result, path) for path, result in results.items()]
        staging.publish(pairs, overwrite=list(results))


def _without_link(path: Path) -> Path:
    """Return the file that a link leads to, and other paths unchanged.

    :raises FileProblem: it is a dangling link.
    """
    if not path.is_symlink():
        return path
    if not path.exists():
        raise FileProblem(
            "the path is a dangling link",
            where=str(path),
            hint="remove the link, or create the file that it leads to",
        )
    return Path(os.path.realpath(path))


def writable_mode(path: Path) -> int:
    """Return the permissions of a file that may be written.

    :raises FileProblem: it is read-only. It could be replaced, but its owner does not want that.
    """
    mode = S_IMODE(path.stat().st_mode)
    if not mode & S_IWUSR or not os.access(path, os.W_OK):
        raise FileProblem(
            "the file is read-only", where=str(path), hint="nothing was written; make it writable"
        )
    return mode


@contextmanager
def new_folder(name: str) -> Iterator[Path]:
    """Create a folder if missing; if the block fails, remove new empty folders.

    :param name: path of the folder; its parents are made too.
    :raises FileProblem: it cannot be created.
    """
    folder = Path(name)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with reporting_os_errors(
            "the folder cannot be created",
            where=name,
            hint="name a folder that exists or can be created",
        ):
            folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.rmdir()
        raise


_MOST_DIGITS = 11
"""Digits of the latest time, which is in the year 5138: Python's dates end in 9999."""


def source_date_epoch(environ: Mapping[str, str]) -> int | None:
    """Return ``SOURCE_DATE_EPOCH``; None if it is not set.

    :raises UserError: it is not a number of seconds.
    """
    text = environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise UserError(
            "SOURCE_DATE_EPOCH is not a number of seconds since 1970",
            where=f"SOURCE_DATE_EPOCH={text[:40]}",
        )
    return int(text)
