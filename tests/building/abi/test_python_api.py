"""What a module wants of Python tells with which Pythons it works."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from wheelfit.building.abi.bounds import Bounds
from wheelfit.building.abi.python_api import python_bounds
from wheelfit.testing.binaries import elf_file
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem

pytest.importorskip("abi3info")
LINUX = "manylinux_2_28_x86_64"
NEW = "PyType_GetName"  # stable since 3.11
PRIVATE = "_PyDict_SetItem_KnownHash"


def module(*wanted: str) -> bytes:
    """Return an extension module that wants some functions."""
    return elf_file(exports=["PyInit_fast"], imports=["PyModule_Create2", "malloc", *wanted])


def bounds(folder: Path, tag: str, *wanted: str, asked: str = "") -> Bounds:
    """Derive the Pythons of a wheel with a module."""
    files = {"fast.abi3.so": module(*wanted)}
    wheel = build_wheel(folder, "fast", "1.0", files=files, tag=f"{tag}-{LINUX}")
    return python_bounds(wheel, SpecifierSet(asked))


def test_the_stable_abi(tmp_path: Path) -> None:
    """B-61: the newest function of the stable ABI says which Python is the oldest."""
    found = bounds(tmp_path, "cp39-abi3", NEW, asked=">=3.9")
    assert found.releases[0].missing_symbols == (NEW,)
    assert found.requirement == ">=3.11"
    assert found.values[:2] == ("3.11", "3.12")


def test_compiled_for_one_python(tmp_path: Path) -> None:
    """B-61: without the limited API it is for its own Python, and a note tells more."""
    found = bounds(tmp_path, "cp312-cp312", NEW)
    assert found.values == ("3.12",)
    assert "could have the tag cp311-abi3" in found.notes[0]
    found = bounds(tmp_path / "private", "cp312-cp312", PRIVATE)
    assert found.notes[0].startswith(f"the stable ABI lacks {PRIVATE}: without them the tag could")


def test_what_is_outside(tmp_path: Path) -> None:
    """B-61: what no stable ABI has is undecided, and said."""
    found = bounds(tmp_path, "cp39-abi3", PRIVATE)
    assert (
        found.notes[0] == f"the stable ABI lacks {PRIVATE}: the Pythons that have them are unknown"
    )


def test_free_threaded(tmp_path: Path) -> None:
    """PEP 803: abi3t begins with Python 3.15."""
    found = bounds(tmp_path, "cp315-abi3t")
    assert str(found.first) == "3.15"


def test_no_module(tmp_path: Path) -> None:
    """B-61: what is no extension module is refused."""
    path = tmp_path / "libfast.so"
    path.write_bytes(elf_file(imports=["PyLong_FromLong"]))
    with pytest.raises(FileProblem, match="no Python extension module"):
        python_bounds(path, SpecifierSet())
