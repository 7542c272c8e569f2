"""Write files and folders of the store: completely or not at all, and never world-writable."""

# Imported at every start of a program with libraries, so it imports as little as possible.
# ruff: noqa: PTH102, PTH105, PTH108, PTH112, PTH113, PTH120, PTH123, PTH208
from __future__ import annotations

import os

_FOLDER_MODE = 0o775
FILE_MODE = 0o664
"""The mode of new files, before the umask: not world-writable even with umask 000."""
_SPACES = str.maketrans("\t\r\n", "   ")


def make_folder(path: str) -> None:
    """Create a folder and its missing parents."""
    try:
        try:
            os.mkdir(path, _FOLDER_MODE)
        except FileNotFoundError:
            make_folder(os.path.dirname(path))
            os.mkdir(path, _FOLDER_MODE)
    except OSError:
        if not os.path.isdir(path):
            raise


def new_file(path: str) -> int:
    """Create a file and return its descriptor for writing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    return os.open(path, flags, FILE_MODE)


def read_fields(path: str) -> list[list[str]] | None:
    """Return the fields of each line of a store file; None: it is missing or incomplete.

    The last line is ``end``, so that a truncated file is detected.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, ValueError):
        return None
    if lines[-2:] != ["end", ""]:
        return None
    return [line.split("\t") for line in lines[:-2]]


def write_fields(path: str, lines: list[tuple[str, ...]]) -> None:
    """Write a file for `read_fields`, completely or not at all."""
    text = "".join("\t".join(field.translate(_SPACES) for field in line) + "\n" for line in lines)
    temporary = f"{path}.{unique_name()}"
    try:
        with open(new_file(temporary), "w", encoding="utf-8") as file:
            file.write(f"{text}end\n")
            file.flush()
            os.fsync(file.fileno())
        _replace(temporary, path)
    except OSError:
        from contextlib import suppress  # 3 ms, only for the first start

        with suppress(OSError):
            os.unlink(temporary)
        raise


def _replace(source: str, target: str) -> None:
    try:
        os.replace(source, target)
    except FileNotFoundError:
        # A network file system may lose the answer, and repeat a request that has succeeded.
        if os.path.lexists(source) or not os.path.isfile(target):
            raise


def unique_name() -> str:
    """Return a unique name."""
    return f"{os.getpid()}-{os.urandom(6).hex()}"


def names_in(folder: str) -> list[str]:
    """Return the sorted names in a folder; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def stays_below(path: str) -> bool:
    """Return whether a path that a file of the store contains leads to no other folder."""
    return not path.startswith("/") and ".." not in path.split("/")
