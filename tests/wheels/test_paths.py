"""Names of members."""

from __future__ import annotations

import pytest

from wheelfit.wheels.paths import (
    collision_faults,
    first_path_fault,
    path_fault,
    target_faults,
    windows_fault,
)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "//server/share",
        "a\\b.py",
        "..",
        "../a.py",
        "a/../../b.py",
        "a/..",
        "../some-sibling/a.py",
        "./a.py",
        "a//b.py",
        "a/./b.py",
        "a.py\0.txt",
        "a\nb.py",
        "a\x7fb.py",
        "a\x85b.py",
        "/",
        "a//",
        "a/\u202egpj.py",
        "a/b\u200b.py",
        "a/b\u2028c.py",
        "a" * 256,
        "a/" + "é" * 128,
        "abc/" * 300 + "d",
    ],
)
def test_refused(name: str) -> None:
    """CVE-2026-34591 and its like: no name leads out, or means two things."""
    assert path_fault(name) is not None
    assert first_path_fault(["a/", "a/b.py", name, "c.py"]) == path_fault(name)


@pytest.mark.parametrize(
    "name",
    [
        "a.py",
        "a/b.py",
        "a/",
        "a/..b",
        "a/.hidden",
        "a b/c,d.py",
        "übung/ß.py",
        "~/a",
        "console.py",
        "a/con_.py",
        "auxiliary/com10/lpt.py",
        "com0",
        "日本語/データ.txt",
        "a" * 255,
        "abc/" * 250 + "d",
    ],
)
def test_accepted(name: str) -> None:
    """Odd names that lie inside the wheel everywhere are fine."""
    assert path_fault(name) is None
    assert windows_fault(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "C:/windows",
        "c:evil.py",
        "a/b:c.py",
        "b.py:hidden",
        "a/b?.py",
        "a/<b>/c",
        'a "b"',
        "a|b",
        "*.py",
        "...",
        "a./b.py",
        "a/b.py ",
        "a /",
        "con",
        "a/NUL.txt",
        "a/aux/b.py",
        "a/Prn.tar.gz",
        "COM1",
        "a/lpt¹.py",
        "a/conin$",
        "a/con .txt",
    ],
)
def test_refused_on_windows(name: str) -> None:
    """What Windows alone cannot have is a fault there and nowhere else (B-34)."""
    assert path_fault(name) is None
    assert windows_fault(name) is not None
    assert target_faults([name], is_windows=True) == (windows_fault(name),)
    assert not target_faults([name], ignores_case=True)


@pytest.mark.parametrize(
    "names",
    [["a.py", "a.py"], ["a", "a/b.py"], ["a/b.py", "a"], ["a", "a/"]],
)
def test_collisions(names: list[str]) -> None:
    """Names that are no two files anywhere are reported."""
    assert collision_faults(names)


@pytest.mark.parametrize(
    "names",
    [
        ["a.py", "A.PY"],
        ["a/b.py", "A/b.py", "A/c.py"],
        ["stra\u00dfe.py", "STRASSE.py"],
        ["caf\u00e9.py", "cafe\u0301.py"],
        ["A", "a/b/c.py"],
    ],
)
def test_collisions_where_case_is_ignored(names: list[str]) -> None:
    """Names that are one file where case is ignored are refused there only (B-34)."""
    assert not collision_faults(names)
    assert not target_faults(names)
    assert target_faults(names, ignores_case=True)
    assert target_faults(names, is_windows=True)


def test_no_collisions() -> None:
    """A folder entry beside its files, and like names in unlike folders, are fine."""
    assert not collision_faults(["a/", "a/b.py", "b/a.py", "ab.py", "a.py"])


def test_all_collisions_are_reported() -> None:
    """Every pair is named, not just the first."""
    faults = target_faults(["a", "A", "b", "B"], ignores_case=True)
    assert faults == (
        "'A' and 'a' are one file on systems that ignore case",
        "'B' and 'b' are one file on systems that ignore case",
    )
