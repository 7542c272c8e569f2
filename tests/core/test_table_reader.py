"""The reader of typed tables."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from wheelfit.core.labels import parse_label
from wheelfit.core.table_reader import FaultList, FirstFault, Table
from wheelfit.core.toml_lines import lines_of, with_lines
from wheelfit.core.versions import parse_version
from wheelfit_runtime.errors import Fault, InvalidConfiguration

MATRIX = ("tool", "wheelfit", "matrix")


def table(content: dict[str, Any]) -> tuple[Table, FaultList]:
    """Return a table at ``tool.wheelfit.matrix``, and the list of its faults."""
    faults = FaultList()
    return Table(content, faults, *MATRIX), faults


def test_sound_values() -> None:
    """Values of the expected kind come back unchanged, missing ones are empty."""
    read, faults = table(
        {
            "name": "x",
            "flag": False,
            "size": 3,
            "names": ["a", "b"],
            "one": "c",
            "inner": {"name": "y"},
            "rows": [{"name": "z"}],
            "by-name": {"n": {"name": "w"}},
        }
    )
    assert (read.string("name"), read.string("none"), read.required("name")) == ("x", None, "x")
    assert (read.flag("flag", default=True), read.flag("none")) == (False, False)
    assert read.integer("size") == 3
    assert (read.strings("names"), read.strings("none")) == (("a", "b"), ())
    assert read.strings("one", single=True) == ("c",)
    assert read.table("inner").string("name") == "y"
    assert read.table("none").content == {}
    assert [row.string("name") for row in read.tables("rows")] == ["z"]
    assert {name: one.string("name") for name, one in read.named("by-name").items()} == {"n": "w"}
    assert "name" in read
    assert "none" not in read
    read.only(*read.content)
    assert faults == []


@pytest.mark.parametrize(
    ("content", "read", "expected"),
    [
        ({"k": 1}, lambda t: t.string("k"), "k: must be a string, not a number"),
        ({"k": {}}, lambda t: t.string("k"), "k: must be a string, not a table"),
        ({"k": date.min}, lambda t: t.string("k"), "k: must be a string, not a date"),
        ({}, lambda t: t.required("k"), "k: is missing"),
        ({"k": ""}, lambda t: t.required("k"), "k: must not be empty"),
        ({"k": "yes"}, lambda t: t.flag("k"), "k: must be true or false, not 'yes'"),
        ({"k": 0}, lambda t: t.flag("k"), "k: must be true or false, not a number"),
        (
            {"k": True},
            lambda t: t.integer("k"),
            "k: must be a whole number of at least 0, not true",
        ),
        ({"k": -1}, lambda t: t.integer("k"), "k: must be a whole number of at least 0, not a n"),
        ({}, lambda t: t.integer("k"), "k: is missing"),
        ({"k": "a"}, lambda t: t.strings("k"), "k: must be a list of strings, not 'a'"),
        ({"k": ["a", 1]}, lambda t: t.strings("k"), "k[1]: must be a string, not a number"),
        (
            {"k": 1},
            lambda t: t.strings("k", single=True),
            "k: must be a string or a list of strings, not a number",
        ),
        ({"k": []}, lambda t: t.table("k"), "k: must be a table, not an empty list"),
        (
            {"k": {}},
            lambda t: t.tables("k"),
            "k: must be a list of tables, not a table (write [[tool.wheelfit.matrix.k]])",
        ),
        ({"k": [{}, 1]}, lambda t: t.tables("k"), "k[1]: must be a table, not a number"),
        ({"k": {"a": 1}}, lambda t: t.named("k"), "k.a: must be a table, not a number"),
        (
            {"pyton": 1},
            lambda t: t.only("python", "label"),
            'pyton: is an unknown key (did you mean "python"?)',
        ),
        (
            {"zzz": 1},
            lambda t: t.only("python", "label"),
            "zzz: is an unknown key (known keys: python, label)",
        ),
        (
            {"k": ["ok", "Not OK"]},
            lambda t: t.each("k", parse_label, rule="F-2"),
            "k[1]: 'Not OK' is not a valid variant label",
        ),
        ({"k": ["one"]}, lambda t: t.each("k", parse_version), "k[0]: "),
    ],
)
def test_each_fault_has_one_wording(content: dict[str, Any], read: Any, expected: str) -> None:
    """A fault begins with its place, and gives what was expected and what was found."""
    one, faults = table(content)
    read(one)
    assert len(faults) == 1, faults
    assert str(faults[0]).startswith(f"{'.'.join(MATRIX)}.{expected}")


def test_reading_goes_on_after_a_fault() -> None:
    """All faults of a table are collected, in the order of reading, and sound items stay."""
    read, faults = table({"names": [1, "a", None], "rows": [3, {"name": 4}], "z": 1})
    assert read.strings("names") == ("a",)
    assert [row.string("name") for row in read.tables("rows")] == [None]
    read.only("names", "rows")
    assert [fault.path.removeprefix("tool.wheelfit.matrix.") for fault in faults] == [
        "names[0]", "names[2]", "rows[0]", "rows[1].name", "z",
    ]  # fmt: skip


def test_the_first_fault_is_raised_with_its_line() -> None:
    """A reader that stops at the first fault names the file, the line and the place."""
    lines = lines_of('a = "x"\n\nb = "y"\n')
    report = FirstFault(InvalidConfiguration, "f.toml", lines.get, hint="see the manual")
    read = Table({"a": "x", "b": "y"}, report)
    with pytest.raises(InvalidConfiguration) as excinfo:
        read.flag("b")
    assert excinfo.value.message == "b must be true or false, not 'y'"
    assert (excinfo.value.where, excinfo.value.hint) == ("f.toml, line 3", "see the manual")
    with pytest.raises(InvalidConfiguration) as excinfo:
        Table({"colr": 1}, FirstFault(InvalidConfiguration, "f")).only("color")
    assert (excinfo.value.message, excinfo.value.where) == ("colr is an unknown key", "f")
    assert excinfo.value.hint == 'did you mean "color"?'


def test_lines_of_collected_faults() -> None:
    """A fault has the line of its place or of the nearest place around it, and is there once."""
    lines = lines_of("[a]\nb = 1\n")
    twice = Fault("a.b", "is missing", "F-1")
    assert with_lines([twice, twice, Fault("a.c", "x"), Fault("z", "y")], lines) == [
        Fault("a.b", "line 2: is missing", "F-1"),
        Fault("a.c", "line 1: x"),
        Fault("z", "y"),
    ]


def test_hostile_tables_cost_little() -> None:
    """Many and long unknown keys are reported without comparing all of them with known ones."""
    read, faults = table({f"{index}{'k' * 70}": 1 for index in range(10_000)})
    known = [f"{index}{'k' * 60}x" for index in range(10)]
    read.only(*known)
    assert len(faults) == 10_000
    suggestions = [fault for fault in faults if "did you mean" in fault.message]
    assert len(suggestions) <= 20
    long, faults = table({"k" * 100_000: 1})
    long.only("k" * 100)
    assert "known keys" in faults[0].message
