"""Tables for people."""

from __future__ import annotations

import pytest

from wheelfit.operations.text import columns


@pytest.mark.parametrize(
    ("head", "rows", "lines"),
    [
        (("A", "B"), [], []),
        (("A",), [("x",)], ["A", "-", "x"]),
        (
            ("Name", "Empty", "Last"),
            [("a", "", "1"), ("longer", "", "")],
            ["Name    Last", "------  ----", "a       1", "longer"],
        ),
        (("Wide title", "B"), [("a", "b")], ["Wide title  B", "----------  -", "a           b"]),
    ],
)
def test_columns(head: tuple[str, ...], rows: list[tuple[str, ...]], lines: list[str]) -> None:
    """Columns are as wide as their widest cell, empty ones are left out, no blanks at the end."""
    assert columns(head, rows) == lines


def test_what_fits_stays_beside_its_row() -> None:
    """Of the last column, cells that the width has room for stay; wider ones stand below."""
    rows = [("a", "1.0", "new"), ("b", "2.0", "replacing the newer 3.0")]
    assert columns(("Name", "Version", "Change"), rows, width=24) == [
        "Name  Version  Change",
        "----  -------  ------",
        "a     1.0      new",
        "b     2.0",
        "  replacing the newer",
        "  3.0",
    ]
    assert columns(("Name", "Version", "Change"), rows[:1], width=10) == [
        "Name",
        "----",
        "a",
        "  version",
        "  1.0, new",
    ]


def test_rows_may_come_from_a_generator() -> None:
    """Rows are read once."""
    assert columns(("A",), (("x",) for _ in range(2))) == ["A", "-", "x", "x"]
