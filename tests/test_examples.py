"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import wheelfit
import wheelfit_runtime


def modules_with_examples() -> list[str]:
    """Return the modules of both distributions with an example in a docstring."""
    names = []
    for package in (wheelfit, wheelfit_runtime):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            if ">>> " in path.read_text("utf-8"):
                parts = path.relative_to(folder.parent).with_suffix("").parts
                names.append(".".join(parts).removesuffix(".__init__"))
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str) -> None:
    """Each gives the result that it shows."""
    result = doctest.testmod(import_module(name))
    assert result.attempted
    assert not result.failed
