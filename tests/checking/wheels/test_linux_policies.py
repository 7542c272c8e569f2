"""What manylinux and musllinux tags promise is what auditwheel says they do."""

from __future__ import annotations

import json
import sys

import pytest
from checking.wheels.write_linux_policies import DATA, policies

from wheelfit.checking.wheels.linux_policies import linux_policy


@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel is for Linux")
def test_the_data_is_that_of_auditwheel() -> None:
    """F-15: the file holds what the installed auditwheel knows, or what an older one knew."""
    written, known = json.loads(DATA.read_text("utf-8")), policies()
    if written["source"] == known["source"]:
        assert written == known
    else:
        assert written.keys() <= known.keys()


@pytest.mark.parametrize(
    ("kind", "version", "symbol", "too_new"),
    [
        ("manylinux", (2, 17), "GLIBCXX_3.4.19", False),
        ("manylinux", (2, 17), "GLIBCXX_3.4.20", True),
        ("manylinux", (2, 17), "CXXABI_1.3.8", True),
        ("manylinux", (2, 29), "GLIBCXX_3.4.28", False),  # as of 2.31: of 2.29 nothing is known
        ("manylinux", (2, 99), "GLIBCXX_3.4.33", False),
        ("manylinux", (2, 17), "CXXABI_TM_1", False),  # no number
        ("manylinux", (2, 17), "PRIVATE_9", False),  # of a library that no policy knows
        ("musllinux", (1, 2), "GLIBCXX_3.4.33", False),  # has no libstdc++, so no versions of it
    ],
)
def test_symbols(kind: str, version: tuple[int, int], symbol: str, *, too_new: bool) -> None:
    """F-15: versions of symbols are compared with the newest that the oldest system has."""
    assert linux_policy(kind, version, "x86_64").is_too_new(symbol) is too_new


@pytest.mark.parametrize(
    ("kind", "library", "promised"),
    [
        ("manylinux", "libc.so.6", True),
        ("manylinux", "ld-linux-x86-64.so.2", True),
        ("manylinux", "libgomp.so.1", False),
        ("musllinux", "libc.musl-x86_64.so.1", True),
        ("musllinux", "libc.so", True),
        ("musllinux", "libstdc++.so.6", False),
        ("manylinux", "libc.musl-x86_64.so.1", False),
    ],
)
def test_libraries(kind: str, library: str, *, promised: bool) -> None:
    """F-15: a library is promised if every system of the tag has it."""
    version = (2, 28) if kind == "manylinux" else (1, 2)
    assert linux_policy(kind, version, "x86_64").has_library(library) is promised
