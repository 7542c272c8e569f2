"""Paths of source files in binaries."""

from __future__ import annotations

import io

import pytest

from wheelfit.wheels.binaries.build_paths import build_paths

PATH = b"\0/home/ann/fast/core.c\0"
OTHER = rb"C:\build\fast.cpp" + b"\0"
BOTH = ("/home/ann/fast/core.c", r"C:\build\fast.cpp")


@pytest.mark.parametrize("filler", [0, 100, (4 << 20) - 10, 9 << 20])
def test_everywhere(filler: int) -> None:
    """Paths are found wherever they lie, also where a file is read in pieces."""
    data = bytes(filler) + PATH + bytes(filler) + OTHER
    assert build_paths(io.BytesIO(data)) == BOTH


def test_one_behind_the_other() -> None:
    """Rust ends no text, so that paths follow each other; a folder may be named like a source."""
    data = b"/root/a/x.rs/root/b/y.rs/project/lib.c/z.cpp:12 /tmp/q.h[r.h\0"
    found = ("/project/lib.c/z.cpp", "/root/a/x.rs", "/root/b/y.rs", "/tmp/q.h")
    assert build_paths(io.BytesIO(data)) == found


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ([], BOTH),
        ([(100, 200)], BOTH),
        ([(90, 400), (100, 200)], BOTH),  # one within the other
        ([(0, 100)], BOTH[1:]),
        ([(0, 100), (10, 1 << 60)], ()),  # beyond the end of the file
        ([(1 << 60, 1)], BOTH),
    ],
)
def test_code(code: list[tuple[int, int]], expected: tuple[str, ...]) -> None:
    """Code is not searched, and whatever sections say, the rest is, and nothing twice."""
    data = PATH.ljust(90, b"\0") + bytes(400) + OTHER
    assert build_paths(io.BytesIO(data), code) == expected
