"""Compiler flags that follow from properties."""

from __future__ import annotations

import pytest

from wheelfit.building.front_end.flags import base_flags, flags_of, level_mark, with_flags
from wheelfit.building.front_end.looking import Compiler
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit_runtime.errors import InvalidConfiguration

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
    """Flags go behind what is there, for Fortran too; further words concern C and C++."""
    march = "-march=x86-64-v3"
    environ = with_flags(
        {"CFLAGS": "-g", "A": "1"}, properties("x86_64 :: level :: v3"), (), machine=INTEL
    )
    assert environ == {
        "A": "1",
        "CFLAGS": f"-g {march}",
        "CXXFLAGS": march,
        "FFLAGS": march,
        "FCFLAGS": march,
    }
    environ = with_flags({}, properties("aarch64 :: version :: 8.2a"), ["-O3"], machine=ARM)
    assert environ == {
        "CFLAGS": "-march=armv8.2-a -O3",
        "CXXFLAGS": "-march=armv8.2-a -O3",
        "FFLAGS": "-march=armv8.2-a",
        "FCFLAGS": "-march=armv8.2-a",
    }
    assert with_flags({"CFLAGS": "-g"}, properties(), (), machine=ARM) == {"CFLAGS": "-g"}


def test_flags_of_the_plain_build_stay() -> None:
    """Where a variable would replace what a backend has, it begins with that.

    One that the user has set replaces it in the plain build, too, so nothing comes before it.
    """
    base = base_flags("setuptools.build_meta", Compiler("gcc", "-DNDEBUG -O3"))
    environ = with_flags(
        {"CXXFLAGS": "-O1", "LDFLAGS": "-s"},
        properties("x86_64 :: level :: v3"),
        ["-funroll-loops"],
        machine=INTEL,
        base=base,
        linker_options=["-Wl,-z,x86-64-v3"],
    )
    assert environ["CFLAGS"] == "-DNDEBUG -O3 -march=x86-64-v3 -funroll-loops"
    assert environ["CXXFLAGS"] == "-O1 -march=x86-64-v3 -funroll-loops"
    assert environ["FFLAGS"] == "-march=x86-64-v3"
    assert environ["LDFLAGS"] == "-s -Wl,-z,x86-64-v3"
    assert with_flags({}, properties(), (), machine=INTEL, base=base) == {}


@pytest.mark.parametrize("backend", ["mesonpy", "scikit_build_core.build", "maturin"])
def test_build_types(backend: str) -> None:
    """Meson, CMake and cargo have flags of their own besides, which nothing replaces."""
    assert base_flags(backend, Compiler("gcc", "-DNDEBUG -O3")) == ""


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("x86_64 :: level :: v1", None),
        ("x86_64 :: level :: v4", ("v4", "-Wl,-z,x86-64-v4")),
        ("aarch64 :: version :: 8.2a", None),
    ],
)
def test_marks(text: str, mark: tuple[str, str] | None) -> None:
    """A level that not every processor has is what a loader shall ask for."""
    assert level_mark(properties(text)) == mark


@pytest.mark.parametrize(
    ("machine", "message"),
    [(ARM, "this machine is arm64"), ({**INTEL, "sys_platform": "win32"}, "gcc and clang only")],
)
def test_elsewhere(machine: dict[str, str], message: str) -> None:
    """Flags that the compiler here would not understand are refused."""
    with pytest.raises(InvalidConfiguration, match=message):
        with_flags({}, properties("x86_64 :: level :: v3"), (), machine=machine)
