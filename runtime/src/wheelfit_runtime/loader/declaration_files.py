"""The files in which implementations and their groups declare themselves.

They are in the folder ``wheelfit_implementations`` of any entry of ``sys.path``, so that listing
one folder for each entry finds the files of all groups, in a fraction of the time that entry points
take. Editable installations may have the folder elsewhere; there importlib finds it. `declarations`
parses the files.
"""

# This runs at every start of a program: paths are text, and only what is needed is imported.
# ruff: noqa: PTH100, PTH118
from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

FOLDER = "wheelfit_implementations"
"""The name of the folder with the files."""
TABLE = "wheelfit_implementation_table"
"""The module with the same content, which a frozen application may have instead."""
MAX_FILE_SIZE = 64 * 1024
"""Bytes of a file; real ones have some hundreds."""
MAX_FILES = 1000
"""Files of one folder that are read, the first by name."""
MAX_ITEMS = 200
"""Entries of a list in a file."""
MAX_TEXT_LENGTH = 200
"""Characters of texts for users and pip."""
MAX_PRIORITY = 1_000_000
"""The greatest priority; the least is its negative."""


class InvalidDeclaration(Exception):
    """Raised for a file that cannot be used; the message is a clause, as ``is not JSON``."""


def declaration_paths(
    paths: Iterable[object], folders: Iterable[str] = (), problems: list[str] | None = None
) -> Iterator[str]:
    """Yield the paths of all declaration files, in order of precedence.

    :param paths: the entries of ``sys.path``.
    :param folders: further folders with files, as `linked_folders` returns them.
    :param problems: a list that the faults of folders are added to.
    """
    for place in dict.fromkeys((*_below(paths), *folders)):
        for name in _listed(place, [] if problems is None else problems):
            yield os.path.join(place, name)


def _below(paths: Iterable[object]) -> Iterator[str]:
    for path in paths:
        if isinstance(path, str):  # importlib does not look at others either
            try:
                top = os.path.abspath(path)
            except OSError:  # the current folder is gone
                continue
            yield os.path.join(top, FOLDER)


def linked_folders() -> tuple[str, ...]:
    """Return the folders that importlib finds, also those of packages installed for editing."""
    module = sys.modules.get(FOLDER)
    try:
        spec = find_module(FOLDER, None) if module is None else module.__spec__
    except (AttributeError, ImportError, ValueError):  # there is a foreign module of that name
        return ()
    return () if spec is None else tuple(spec.submodule_search_locations or ())


def find_module(
    fullname: str,
    path: Sequence[str] | None,
    target: ModuleType | None = None,
    *,
    without: object = None,
) -> ModuleSpec | None:
    """Return the spec of a module by the finders of this process, without importing it.

    `importlib.util` does the same, and takes milliseconds to import.

    :param path: the ``__path__`` of the parent; None: ``sys.path``.
    :param without: a finder to skip.
    """
    for one in sys.meta_path:
        if one is not without and hasattr(one, "find_spec"):
            spec: ModuleSpec | None = one.find_spec(fullname, path, target)
            if spec is not None:
                return spec
    return None


def _listed(place: str, problems: list[str]) -> list[str]:
    """Return the names of the files of a folder, in order; most entries of a path have none."""
    try:
        names = os.listdir(place)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return []
    except OSError as error:
        if os.path.lexists(place):  # else the entry of the path is closed
            problems.append(f"{plain(place)}: {_why(error)}")
        return []
    found = sorted(name for name in names if name.endswith(".json") and name[0] != ".")
    if len(found) > MAX_FILES:
        problems.append(f"{plain(place)}: has {len(found)} files; {MAX_FILES} are read")
    return found[:MAX_FILES]


def read_file(where: str) -> bytes:
    """Return the content of a file; at most one byte more than `MAX_FILE_SIZE`.

    :raises InvalidDeclaration: it is not a regular file, or cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        # At once, and looked at when it is open: a pipe would wait, a device would not end.
        handle = os.open(where, flags | getattr(os, "O_BINARY", 0))
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise InvalidDeclaration("is not a regular file")
            data = b""
            while len(data) <= MAX_FILE_SIZE and (piece := os.read(handle, MAX_FILE_SIZE + 1)):
                data += piece
        finally:
            os.close(handle)
    except OSError as error:
        raise InvalidDeclaration(_why(error)) from None
    return data


def _why(error: OSError) -> str:
    return f"cannot be read ({error.strerror or type(error).__name__})"


def plain(text: str) -> str:
    """Return words of others as part of a line of a terminal: they cannot end or change it."""
    return text if text.isprintable() else ascii(text)[1:-1]
