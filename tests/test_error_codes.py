"""The table of codes, the classes, and the places that raise them agree."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from test_errors import family

from wheelfit_runtime.error_codes import CODES, Code
from wheelfit_runtime.errors import UserError, WheelfitError

KINDS = {kind.__name__: kind for kind in family()}
STATUS = {str(code): row.exit_code for code, row in CODES.items()}


@pytest.fixture(scope="module")
def named() -> list[tuple[str, str, str]]:
    """Return callable, code and place of every call in the source that names a code."""
    return list(_named())


def _named() -> Iterator[tuple[str, str, str]]:
    for package in {kind.__module__.partition(".")[0] for kind in KINDS.values()}:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        for path in Path(spec.origin or "").parent.rglob("*.py"):
            source = path.read_text()
            tree = ast.walk(ast.parse(source)) if "code=" in source else ()
            for call in (node for node in tree if isinstance(node, ast.Call)):
                for word in call.keywords:
                    if word.arg == "code" and isinstance(word.value, ast.Constant):
                        name = ast.unparse(call.func).rpartition(".")[2]
                        yield name, str(word.value.value), f"{path}:{call.lineno}"


def test_each_code_has_a_row() -> None:
    """The type and the table name the same codes."""
    assert sorted(get_args(Code)) == sorted(CODES)


def test_each_class_has_a_row() -> None:
    """The code of a class is in the table."""
    assert {kind.reference for kind in KINDS.values()} <= set(STATUS)


def test_each_code_is_of_its_class(named: list[tuple[str, str, str]]) -> None:
    """A call gives a class only codes with its exit code; the base takes all."""
    calls = [call for call in named if call[0] in KINDS]
    assert calls
    assert not [
        place
        for name, code, place in calls
        if STATUS.get(code) != CODES[KINDS[name].reference].exit_code
        and KINDS[name] is not WheelfitError
    ]


def test_each_code_is_used(named: list[tuple[str, str, str]]) -> None:
    """A row of the table belongs to a class or is named by a call."""
    used: set[str] = {kind.reference for kind in KINDS.values()}
    used |= {code for _, code, _ in named}
    assert not set(STATUS) - used


def test_an_unknown_code_fails_at_once() -> None:
    """A code that is misspelt is an error where it is raised."""
    with pytest.raises(KeyError):
        UserError("m", code="invalid-lable")  # type: ignore[arg-type]


def test_a_class_with_an_unknown_code_fails_at_once() -> None:
    """A code that is misspelt in a class is an error where the class is made."""
    with pytest.raises(KeyError):
        type("Mine", (UserError,), {}, code="invalid-lable")


def test_a_code_of_another_kind_fails_at_once() -> None:
    """A code with another exit code than that of the class is refused."""
    with pytest.raises(ValueError, match="unknown-label is not a code of UserError"):
        UserError("m", code="unknown-label")
