"""The support of `wheelfit_runtime` for programs that freeze applications.

It imports by name, and so do those who use it: which modules are needed cannot be seen in the code.
PyInstaller finds the hook by itself, through the entry point ``hook-dirs`` of ``pyinstaller40``.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from wheelfit_runtime.loader.declaration_files import FOLDER, declaration_paths, linked_folders
from wheelfit_runtime.loader.declarations import as_table, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO


def hook_folders() -> list[str]:
    """Return the folders with hooks for PyInstaller."""
    return [os.path.join(os.path.dirname(__file__), "hooks")]  # noqa: PTH118, PTH120


def implementation_modules(paths: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the modules of all implementations that are installed.

    :param paths: the search path of modules; default: ``sys.path``.
    """
    path, folders = _places(paths)
    declared = scan(path, folders=folders)
    return tuple(
        dict.fromkeys(implementation.module for implementation in declared.implementations)
    )


def declaration_files(paths: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the files in which implementations declare themselves, and the folder for them.

    :param paths: the search path of modules; default: ``sys.path``.
    """
    seen: set[str] = set()
    for where in declaration_paths(*_places(paths)):
        name = os.path.basename(where)  # noqa: PTH119
        if name not in seen:
            seen.add(name)
            yield where, FOLDER


def _places(paths: Iterable[str] | None) -> tuple[Iterable[str], Iterable[str]]:
    return (sys.path, linked_folders()) if paths is None else (paths, ())


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],  # noqa: ARG001 - nothing depends on it
    out: TextIO,
    err: TextIO,  # noqa: ARG001 - nothing goes wrong
) -> int:
    """Write the declarations as a module (``python -m wheelfit_runtime table``), and return 0."""
    from argparse import ArgumentParser  # no hook needs it

    words = "Write what is declared as a module, for a frozen application."
    ArgumentParser("python -m wheelfit_runtime table", description=words).parse_args(arguments)
    out.write(as_table(sys.path, linked_folders()))
    return 0
