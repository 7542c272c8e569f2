"""``[variant.abi-exports]``: the ABI that a library guarantees to its dependents."""

from __future__ import annotations

from typing import Any

import pytest

from wheelfit.core.abi_exports import AbiExports, AbiLevel
from wheelfit.core.labels import Label
from wheelfit.core.metadata import write_document
from wheelfit.core.project_table import read_project_table, wheel_document
from wheelfit.core.properties import PropertySet
from wheelfit_runtime.errors import InvalidDocument


def pyproject(exports: object, **more: Any) -> dict[str, Any]:
    """Return a project with the table."""
    provider = {"requires": ["x86-64-variant-provider<1"]}
    table = {
        "default-priorities": {"namespace": ["x86_64"]},
        "providers": {"x86_64": provider},
        "abi-exports": exports,
    }
    return {"variant": {**table, **more}}


def test_read() -> None:
    """B-61: level and libraries are read."""
    table = read_project_table(pyproject({"level": "major", "libraries": ["libfast*"]}))
    assert table is not None
    assert table.abi_exports == AbiExports(AbiLevel.MAJOR, ("libfast*",))
    assert table.abi_exports.covers("libfast.so.1")
    assert not table.abi_exports.covers("libprivate.so")
    without = read_project_table(pyproject({"level": "patch"}))
    assert without is not None
    assert without.abi_exports == AbiExports(AbiLevel.PATCH)


def test_not_in_wheels() -> None:
    """B-61: B-1: wheels have the same bytes with the table and without."""
    plain = pyproject({"level": "minor"})
    table = read_project_table(plain)
    del plain["variant"]["abi-exports"]
    bare = read_project_table(plain)
    assert table is not None
    assert bare is not None
    assert bare.abi_exports is None
    written = [
        write_document(wheel_document(one, Label("null"), PropertySet())) for one in (table, bare)
    ]
    assert written[0] == written[1]


def test_table_without_variants() -> None:
    """B-61: A project without variants may have the table, and remains one."""
    assert read_project_table({"variant": {"abi-exports": {"level": "minor"}}}) is None
    with pytest.raises(InvalidDocument) as excinfo:
        read_project_table({"variant": {"abi-exports": {"level": 1}}})
    assert [fault.path for fault in excinfo.value.faults] == ["variant.abi-exports.level"]


@pytest.mark.parametrize(
    ("exports", "paths"),
    [
        (3, ["variant.abi-exports"]),
        ({}, ["variant.abi-exports.level"]),
        ({"level": "Minor"}, ["variant.abi-exports.level"]),
        (
            {"level": "minor", "library": [], "libraries": "x"},
            ["variant.abi-exports.library", "variant.abi-exports.libraries"],
        ),
        ({"level": "minor", "libraries": [1]}, ["variant.abi-exports.libraries[0]"]),
    ],
)
def test_faults(exports: object, paths: list[str]) -> None:
    """B-61: every fault is reported with its path."""
    with pytest.raises(InvalidDocument) as excinfo:
        read_project_table(pyproject(exports))
    assert [fault.path for fault in excinfo.value.faults] == paths
    assert {fault.rule for fault in excinfo.value.faults} == {"B-61"}
