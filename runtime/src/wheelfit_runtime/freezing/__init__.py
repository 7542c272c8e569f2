"""The support of `wheelfit_runtime` for programs that freeze applications.

`wheelfit_runtime` and the packages that use it import modules by name, so a freezing program cannot
find them in the code. PyInstaller finds the hook by itself, through the entry point ``hook-dirs``
of ``pyinstaller40``.
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
    """Return the folders with PyInstaller hooks."""
    return [os.path.join(os.path.dirname(__file__), "hooks")]  # noqa: PTH118, PTH120


def implementation_modules(paths: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return the modules of all installed implementations.

    :param paths: the search path of modules; default: ``sys.path``.
    """
    search_path, folders = _search_path(paths)
    declared = scan(search_path, folders=folders)
    return tuple(
        dict.fromkeys(implementation.module for implementation in declared.implementations)
    )


def declaration_files(paths: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the path of each declaration file, and its folder in a frozen application.

    :param paths: the search path of modules; default: ``sys.path``.
    """
    names: set[str] = set()
    for path in declaration_paths(*_search_path(paths)):
        name = os.path.basename(path)  # noqa: PTH119
        if name not in names:
            names.add(name)
            yield path, FOLDER


def _search_path(paths: Iterable[str] | None) -> tuple[Iterable[str], Iterable[str]]:
    return (sys.path, linked_folders()) if paths is None else (paths, ())


def run(
    arguments: Sequence[str],
    environ: Mapping[str, str],  # noqa: ARG001 - the interface of the commands
    out: TextIO,
    err: TextIO,  # noqa: ARG001
) -> int:
    """Write the declarations as a module (``python -m wheelfit_runtime table``), and return 0."""
    from argparse import ArgumentParser  # only needed here, not by hooks

    description = "Write the declarations of all implementations as a module, for freezing."
    ArgumentParser("python -m wheelfit_runtime table", description=description).parse_args(
        arguments
    )
    out.write(as_table(sys.path, linked_folders()))
    return 0
