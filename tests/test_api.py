"""``import wheelfit`` is the Python API: lazy, documented, and what the command line uses."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from python_runs import printed_by

import wheelfit
from wheelfit.cli.command import Operation
from wheelfit.cli.commands import working_commands
from wheelfit.operations.requests import field_types

NAMES = [name for name in wheelfit.__all__ if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_documented(name: str) -> None:
    """Each name has a docstring, and each function names its parameters and errors."""
    thing = getattr(wheelfit, name)
    doc = inspect.getdoc(thing) or ""
    assert doc
    if inspect.isfunction(thing):
        for parameter in inspect.signature(thing).parameters:
            assert f":param {parameter}:" in doc
        assert ":raises " in doc


def test_an_import_brings_nothing() -> None:
    """Modules are imported when a name is first used, and subpackages hide no name."""
    program = (
        "import sys; before = set(sys.modules); import wheelfit; "
        "print(sorted(set(sys.modules) - before - {'__future__'})); "
        "import wheelfit.operations.lock; import wheelfit.installation.environment; "
        "print(callable(wheelfit.install))"
    )
    assert printed_by("-c", program).splitlines() == ["['wheelfit']", "True"]


def test_no_name_is_a_package() -> None:
    """A package of the same name would take the place of a function."""
    packages = {path.name for path in Path(wheelfit.__file__).parent.iterdir()}
    assert not packages & {name for name in NAMES if name != "errors"}


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("Request")])
def test_requests_are_frozen_values_with_defaults(name: str) -> None:
    """A request can be hashed, and no more than two of its fields need a value."""
    kind = getattr(wheelfit, name)
    needed = [field for field in field_types(kind) if not hasattr(kind, field)]
    assert len(needed) <= 2
    assert isinstance(hash(kind(**dict.fromkeys(needed, ()))), int)


def test_operations_of_the_command_line_are_those_of_the_api() -> None:
    """A command runs the function of its name that the API offers."""
    commands = working_commands()
    for name in ("build", "bundle", "check", "explain", "export", "install", "lock", "probe"):
        run: Any = commands[name].run
        if isinstance(run, Operation):
            called = {run.function}
        else:
            called = {
                f"{node.module}.{alias.name}".removeprefix("wheelfit.operations.")
                for node in ast.walk(ast.parse(inspect.getsource(run)))
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
        assert f"{name}.{name}" in called
