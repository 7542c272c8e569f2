"""Names of members."""

from __future__ import annotations

import pytest

from wheelfit.wheels.paths import collision_faults, path_fault


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "//server/share",
        "C:/windows",
        "c:evil.py",
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
        "a/b:c.py",
        "b.py:hidden",
        "a/\u202egpj.py",
        "a/b\u200b.py",
        "a/b\u2028c.py",
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
        "a" * 256,
        "a/" + "é" * 128,
        "abc/" * 300 + "d",
    ],
)
def test_refused(name: str) -> None:
    """CVE-2026-34591 and its like: no name leads out, or means two things."""
    assert path_fault(name) is not None


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


@pytest.mark.parametrize(
    "names",
    [
        ["a.py", "a.py"],
        ["a.py", "A.PY"],
        ["a/b.py", "A/b.py", "A/c.py"],
        ["stra\u00dfe.py", "STRASSE.py"],
        ["caf\u00e9.py", "cafe\u0301.py"],
        ["a", "a/b.py"],
        ["a/b.py", "a"],
        ["A", "a/b/c.py"],
        ["a", "a/"],
    ],
)
def test_collisions(names: list[str]) -> None:
    """Names that fall together on some file system are reported."""
    assert collision_faults(names)


def test_no_collisions() -> None:
    """A folder entry beside its files, and like names in unlike folders, are fine."""
    assert not collision_faults(["a/", "a/b.py", "b/a.py", "ab.py", "a.py"])


def test_all_collisions_are_reported() -> None:
    """Every pair is named, not just the first."""
    faults = collision_faults(["a", "A", "b", "b"])
    assert faults == (
        "'A' and 'a' are one file on systems that ignore case",
        "'b' is there twice",
    )
