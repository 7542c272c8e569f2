"""Imports of the command line, which are limited to operations."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import wheelfit.cli

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(wheelfit.cli.__file__).parent
ABOVE = {"cli", "operations", "errors", "error_codes", "wording"}
EXCEPTIONS = {
    "options/file_tables.py": "the values of settings are those of core",
    "options/values.py": "it parses words as the floor does that they are for",
    "configuration.py": "it reads files before any operation runs",
    "logged_output.py": "the log of a server has one form",
    "main.py": "it looks at its own requirements when an import fails",
    "output.py": "errors of every floor lose their credentials there",
    "progress.py": "it implements the interface of progress",
    "render/cache.py": "sizes in words",
    "render/changes.py": "sizes in words",
    "render/diagnosis.py": "durations in words",
}


def imported(path: Path) -> Iterator[str]:
    """Yield the packages of wheelfit that a module imports at run time."""
    tree = ast.parse(path.read_text())
    unseen = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inside in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in unseen and node.module:
            package, _, rest = node.module.partition(".")
            if package.startswith("wheelfit") and rest:
                yield rest.partition(".")[0]


def test_commands_and_renderers_import_operations_only() -> None:
    """The exceptions are exactly the listed ones."""
    found = {
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*.py")
        if set(imported(path)) - ABOVE
    }
    assert found == set(EXCEPTIONS)
