"""Compiler flags that follow from properties."""

from __future__ import annotations

import pytest

from wheelfit.build.front_end.flags import flags_of, with_flags
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit.errors import InvalidConfiguration

INTEL = {"platform_machine": "x86_64", "sys_platform": "linux"}
ARM = {"platform_machine": "arm64", "sys_platform": "darwin"}


def properties(*texts: str) -> PropertySet:
    """Return a set of properties."""
    return PropertySet(map(parse_property, texts))


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("x86_64 :: level :: v1", "-march=x86-64"),
        ("x86_64 :: level :: v4", "-march=x86-64-v4"),
        ("aarch64 :: version :: 8a", "-march=armv8-a"),
        ("aarch64 :: version :: 8.4a", "-march=armv8.4-a"),
        ("aarch64 :: version :: 9.0a", "-march=armv9-a"),
    ],
)
def test_flags(text: str, flag: str) -> None:
    """B-26: levels and versions have flags, as compilers spell them."""
    assert flags_of(properties(text)) == (flag,)


def test_nothing_follows() -> None:
    """No other property has flags, nor has a level that nobody knows."""
    other = ("x86_64 :: aes :: on", "x86_64 :: level :: v9", "nvidia :: sm_arch :: 90_real")
    assert flags_of(properties(*other)) == ()


@pytest.mark.parametrize(
    ("texts", "flag"),
    [
        (["x86_64 :: level :: v4", "x86_64 :: level :: v2"], "-march=x86-64-v2"),
        (["aarch64 :: version :: 9.0a", "aarch64 :: version :: 8.1a"], "-march=armv8.1-a"),
    ],
)
def test_the_lowest_counts(texts: list[str], flag: str) -> None:
    """A wheel of several levels runs on the machines of each."""
    assert flags_of(properties(*texts)) == (flag,)


def test_languages() -> None:
    """Flags go behind what is there; those of ARM concern Fortran too."""
    environ = with_flags(
        {"CFLAGS": "-g", "A": "1"}, properties("x86_64 :: level :: v3"), (), machine=INTEL
    )
    assert environ == {"A": "1", "CFLAGS": "-g -march=x86-64-v3", "CXXFLAGS": "-march=x86-64-v3"}
    environ = with_flags({}, properties("aarch64 :: version :: 8.2a"), ["-O3"], machine=ARM)
    assert environ == {
        "CFLAGS": "-march=armv8.2-a -O3",
        "CXXFLAGS": "-march=armv8.2-a -O3",
        "FFLAGS": "-march=armv8.2-a",
        "FCFLAGS": "-march=armv8.2-a",
    }
    assert with_flags({"CFLAGS": "-g"}, properties(), (), machine=ARM) == {"CFLAGS": "-g"}


@pytest.mark.parametrize(
    ("machine", "message"),
    [(ARM, "this machine is arm64"), ({**INTEL, "sys_platform": "win32"}, "gcc and clang only")],
)
def test_elsewhere(machine: dict[str, str], message: str) -> None:
    """Flags that the compiler here would not understand are refused."""
    with pytest.raises(InvalidConfiguration, match=message):
        with_flags({}, properties("x86_64 :: level :: v3"), (), machine=machine)
