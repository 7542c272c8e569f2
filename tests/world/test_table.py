"""``wheelfit install`` of the packages people ask for, on six machines, in November 2026."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from world.internet import Answer
from world.table import Cell, Package, packages
from world.write_page import PAGE, row

pytestmark = pytest.mark.integration

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
CELLS = [
    cell for package in packages() for cell in package.cells if PYTHON not in cell.other_pythons
]
NO_FIT = 3
INSTALLED = ("v100-535", "mi300x-rocm7")
"""Machines for which everything is not only chosen: their answers differ most from a usual one."""


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_each_machine_gets_what_is_right(cell: Cell, choose: Callable[..., Answer]) -> None:
    """The right distributions are installed, or the reason is said why there are none."""
    if cell.options:
        result = choose(cell.machine, *cell.ask, code=cell.code)
        assert cell.says
        assert cell.says in result.words
    if cell.refused:
        result = choose(cell.machine, *cell.ask, *cell.options, code=NO_FIT)
        assert cell.refused in result.words
        return
    result = choose(cell.machine, *cell.ask, *cell.options)
    assert result.installed == sorted(cell.install)
    assert cell.warns in result.words


@pytest.mark.parametrize(
    "cell", [one for one in CELLS if one.install and one.machine in INSTALLED], ids=str
)
def test_it_is_really_installed(cell: Cell, install: Callable[..., str], tmp_path: Path) -> None:
    """What is chosen is what the wheels are, and a second run has nothing to do."""
    words = (cell.machine, *cell.ask, *cell.options, "--target", tmp_path / "target")
    assert "installed" in install(*words)
    assert "nothing to do" in install(*words)


def test_directml(choose: Callable[..., Answer]) -> None:
    """An AMD GPU on Windows is used by DirectML."""
    result = choose("rocm-7.0-gfx1100+windows-x86_64", "onnxruntime")
    assert result.installed == ["onnxruntime 1.24.4 directml", "onnxruntime-directml 1.24.4"]


@pytest.mark.parametrize("package", packages(), ids=lambda one: one.name)
def test_the_page_has_them(package: Package) -> None:
    """The page lists each answer, as the files have them."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## `{' '.join(package.ask)}`\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    for line, cell in zip(rows, package.cells, strict=True):
        assert line.startswith(row(cell))
