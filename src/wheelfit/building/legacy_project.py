"""The ``[build-system]`` of a project that has only a ``setup.py`` or ``setup.cfg``.

It names the default backend of front ends (PEP 517), and the imports of the script as requirements.
The script is read, never run.
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
"""The requirements of modules with another distribution name; setuptools 82 removed
``pkg_resources``."""
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})
_MAX_SIZE = 4 << 20


def build_system_of(folder: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return the ``[build-system]`` for a project, and the requirements of its ``setup.py``.

    :return: None where there is neither a ``setup.py`` nor a ``setup.cfg``.
    """
    script = folder / "setup.py"
    if not (script.is_file() or (folder / "setup.cfg").is_file()):
        return None
    modules = _required_modules(folder, script) if script.is_file() else ()
    requirements = tuple(dict.fromkeys(_PACKAGES.get(name, name) for name in modules))
    limits_setuptools = any(text.startswith("setuptools<") for text in requirements)
    all_requirements = requirements if limits_setuptools else ("setuptools", *requirements)
    requires = ", ".join(map(json.dumps, all_requirements))
    text = f'[build-system]\nrequires = [{requires}]\nbuild-backend = "{BACKEND}"\n'
    return text, requirements


def _required_modules(folder: Path, script: Path) -> tuple[str, ...]:
    """Return the modules that a script needs from packages, without setuptools."""
    try:
        with script.open("rb") as file:
            tree = ast.parse(file.read(_MAX_SIZE))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()  # the backend reports the fault in more detail
    excluded = {*sys.stdlib_module_names, "setuptools", "distutils"}
    return tuple(
        name
        for name in dict.fromkeys(_top_imports(tree.body))
        if name not in excluded
        and not (folder / f"{name}.py").exists()
        and not (folder / name).is_dir()
    )


def _top_imports(statements: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the modules that a script always imports, without handling a failure."""
    for statement in statements:
        match statement:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
            case ast.Try(body=body, handlers=handlers) if not any(map(_catches, handlers)):
                yield from _top_imports(body)
            case ast.With(body=body):
                yield from _top_imports(body)


def _catches(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches the failed import of a module."""
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return not _IMPORT_ERRORS.isdisjoint(names)
