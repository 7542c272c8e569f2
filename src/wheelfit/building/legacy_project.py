"""The ``[build-system]`` of a project that has a ``setup.py`` or ``setup.cfg`` alone.

It has the backend that front ends use without it (PEP 517), and the imports of the script, which
front ends cannot determine. The script is read, never run.
"""

from __future__ import annotations

import ast
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

BACKEND = "setuptools.build_meta:__legacy__"
_PACKAGES = {"pkg_resources": "setuptools<82", "skbuild": "scikit-build"}
"""Modules with another distribution name; setuptools 82 has no ``pkg_resources`` any more."""
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})
_LARGEST = 4 << 20


def build_system_of(folder: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return the ``[build-system]`` of a project without one, and the imports of its ``setup.py``.

    :return: None where there is neither a ``setup.py`` nor a ``setup.cfg``.
    """
    script = folder / "setup.py"
    if not (script.is_file() or (folder / "setup.cfg").is_file()):
        return None
    imported = _imported(folder, script) if script.is_file() else ()
    needed = tuple(dict.fromkeys(_PACKAGES.get(name, name) for name in imported))
    own = [] if any(one.startswith("setuptools<") for one in needed) else ["setuptools"]
    requires = ", ".join(json.dumps(one) for one in (*own, *needed))
    text = f'[build-system]\nrequires = [{requires}]\nbuild-backend = "{BACKEND}"\n'
    return text, needed


def _imported(folder: Path, script: Path) -> tuple[str, ...]:
    """Return the modules that a script needs and that come from packages, but for setuptools."""
    try:
        with script.open("rb") as file:
            tree = ast.parse(file.read(_LARGEST))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # its backend reports the fault in more detail
    known = {*sys.stdlib_module_names, "setuptools", "distutils"}
    return tuple(
        name
        for name in dict.fromkeys(_top_imports(tree.body))
        if name not in known
        and not (folder / f"{name}.py").exists()
        and not (folder / name).is_dir()
    )


def _top_imports(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield modules that are imported whenever a script runs, and must be there."""
    for statement in statements:
        match statement:
            case ast.Import(names=names):
                yield from (one.name.partition(".")[0] for one in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case ast.Try(body=body, handlers=handlers) if not any(map(_catches, handlers)):
                yield from _top_imports(body)
            case ast.With(body=body):
                yield from _top_imports(body)
            case _:
                pass


def _catches(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the failed import of a module."""
    names = (
        {one.id for one in ast.walk(handler.type) if isinstance(one, ast.Name)}
        if handler.type
        else _CAUGHT
    )
    return not _CAUGHT.isdisjoint(names)
