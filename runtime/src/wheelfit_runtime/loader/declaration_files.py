"""The files in which implementations and their groups declare themselves.

They are in the folder ``wheelfit_implementations`` of any entry of ``sys.path``: listing one folder
for each entry finds the files of all groups, in a fraction of the time that entry points take. The
folders of editable installations are found through importlib. `declarations` parses the files.
"""

# Imported at every start of a program: paths are text, and few modules are imported.
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
"""The module with the content of the files, which a frozen application may have instead."""
MAX_FILE_SIZE = 64 * 1024
"""Bytes of a file; real ones have some hundreds."""
MAX_FILES = 1000
"""Files of one folder that are read, the first by name."""
MAX_ITEMS = 200
"""Entries of a list in a file."""
MAX_TEXT_LENGTH = 200
"""Characters of a text, such as a title or a requirement."""
MAX_PRIORITY = 1_000_000
"""The greatest priority; the least is its negative."""


class InvalidDeclaration(Exception):
    """Raised for an invalid file; the message is a clause such as ``is not JSON``."""


def declaration_paths(
    paths: Iterable[object], folders: Iterable[str] = (), problems: list[str] | None = None
) -> Iterator[str]:
    """Yield the paths of all declaration files, in order of precedence.

    :param paths: the entries of ``sys.path``.
    :param folders: further folders with files, as `linked_folders` returns them.
    :param problems: the list to which faults of folders are appended; None: they are ignored.
    """
    for folder in dict.fromkeys((*_declaration_folders(paths), *folders)):
        for name in _file_names(folder, [] if problems is None else problems):
            yield os.path.join(folder, name)


def _declaration_folders(paths: Iterable[object]) -> Iterator[str]:
    for path in paths:
        if isinstance(path, str):  # importlib ignores others too
            try:
                top = os.path.abspath(path)
            except OSError:  # the current folder is gone
                continue
            yield os.path.join(top, FOLDER)


def linked_folders() -> tuple[str, ...]:
    """Return the folders that importlib finds, including those of editable installations."""
    module = sys.modules.get(FOLDER)
    try:
        spec = find_module(FOLDER, None) if module is None else module.__spec__
    except (AttributeError, ImportError, ValueError):  # another module has this name
        return ()
    return () if spec is None else tuple(spec.submodule_search_locations or ())


def find_module(
    fullname: str,
    path: Sequence[str] | None,
    target: ModuleType | None = None,
    *,
    skip: object = None,
) -> ModuleSpec | None:
    """Return the spec of a module by the finders of this process, without importing it.

    `importlib.util` does the same, and takes milliseconds to import.

    :param path: the ``__path__`` of the parent; None: ``sys.path``.
    :param skip: a finder to skip.
    """
    for finder in sys.meta_path:
        if finder is not skip and hasattr(finder, "find_spec"):
            spec: ModuleSpec | None = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
    return None


def _file_names(folder: str, problems: list[str]) -> list[str]:
    """Return the names of the files of a folder, in order; most folders do not exist."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return []
    except OSError as error:
        if os.path.lexists(folder):  # otherwise its parent is not readable
            problems.append(f"{escaped(folder)}: {_read_fault(error)}")
        return []
    files = sorted(name for name in names if name.endswith(".json") and name[0] != ".")
    if len(files) > MAX_FILES:
        problems.append(f"{escaped(folder)}: has {len(files)} files; {MAX_FILES} are read")
    return files[:MAX_FILES]


def read_file(where: str) -> bytes:
    """Return the content of a file; at most one byte more than `MAX_FILE_SIZE`.

    :raises InvalidDeclaration: it is not a regular file, or cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        # The type is checked after opening: a pipe would block, and a device has no end.
        descriptor = os.open(where, flags | getattr(os, "O_BINARY", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidDeclaration("is not a regular file")
            data = b""
            while piece := os.read(descriptor, MAX_FILE_SIZE + 1 - len(data)):
                data += piece
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidDeclaration(_read_fault(error)) from None
    return data


def _read_fault(error: OSError) -> str:
    from wheelfit_runtime.errors import os_reason

    return f"cannot be read ({os_reason(error)})"


def escaped(text: str) -> str:
    """Return a text with control characters escaped, for one line of a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]
