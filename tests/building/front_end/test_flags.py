"""Compiler flags that follow from properties."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from wheelfit.building.front_end.flags import flags_of, with_flags
from wheelfit.building.front_end.toolchains.c_family import base_flags, level_mark
from wheelfit.building.front_end.toolchains.go import GO
from wheelfit.building.front_end.toolchains.inputs import BuildInputs, Compiler
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit_runtime.errors import InvalidConfiguration

INTEL = {"platform_machine": "x86_64", "sys_platform": "linux"}
_OTHERS = ("CARGO_", "CGO_", "GO")
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
    assert flags_of(properties(text), INTEL) == (flag,)


def test_nothing_follows() -> None:
    """No other property has flags, nor has a level that nobody knows."""
    other = ("x86_64 :: aes :: on", "x86_64 :: level :: v9", "nvidia :: sm_arch :: 9_real")
    assert flags_of(properties(*other), INTEL) == ()
    assert with_flags(BuildInputs({"A": "1"}), properties(*other)).environ == {"A": "1"}


@pytest.mark.parametrize(
    ("texts", "flag"),
    [
        (["x86_64 :: level :: v4", "x86_64 :: level :: v2"], "-march=x86-64-v2"),
        (["aarch64 :: version :: 9.0a", "aarch64 :: version :: 8.1a"], "-march=armv8.1-a"),
    ],
)
def test_the_lowest_counts(texts: list[str], flag: str) -> None:
    """A wheel of several levels runs on the machines of each."""
    assert flags_of(properties(*texts), INTEL) == (flag,)


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("x86_64 :: level :: v1", ("GOAMD64", "v1")),
        ("x86_64 :: level :: v4", ("GOAMD64", "v4")),
        ("aarch64 :: version :: 8a", ("GOARM64", "v8.0")),
        ("aarch64 :: version :: 9.0a", ("GOARM64", "v9.0")),
    ],
)
def test_go(text: str, variable: tuple[str, str]) -> None:
    """Go has variables for levels, and those of cgo begin with what it has unasked."""
    machine = ARM if text.startswith("aarch64") else INTEL
    environ = with_flags(BuildInputs({"PATH": ""}, machine=machine), properties(text)).environ
    name, value = variable
    assert environ[name] == value
    flag = flags_of(properties(text), machine)[0]
    assert environ["CGO_CFLAGS"] == environ["CGO_CXXFLAGS"] == f"-O2 -g {flag}"
    assert flags_of(properties(text), machine, [GO])[-1] == f"{name}={value}"


def test_zig() -> None:
    """The compiler of Zig for C has names of its own for processors."""
    environ = {"CC": "python -m ziglang cc", "PATH": ""}
    assert told(environ, properties("x86_64 :: level :: v3"))["CFLAGS"] == "-mcpu=x86_64_v3"
    found = told(environ, properties("aarch64 :: version :: 8.2a"), machine=ARM)
    assert found["CFLAGS"] == "-mcpu=generic+v8_2a"


def test_a_folder_named_like_zig() -> None:
    """Only the name of the compiler counts, not the folder that it is in."""
    for command, flag in (("/opt/zig/gcc", "-march=x86-64-v3"), ("/opt/zig", "-mcpu=x86_64_v3")):
        environ = {"CC": command, "PATH": ""}
        assert told(environ, properties("x86_64 :: level :: v3"))["CFLAGS"] == flag


def told(
    environ: dict[str, str], wanted: PropertySet, *further: str, machine: dict[str, str] = INTEL
) -> Mapping[str, str]:
    """Return the environment of a build, without what concerns Rust and Go."""
    inputs = with_flags(BuildInputs(environ, machine=machine, backend="mesonpy"), wanted, further)
    return {name: text for name, text in inputs.environ.items() if not name.startswith(_OTHERS)}


def test_languages() -> None:
    """Flags go behind what is there, for Fortran too; further words concern C and C++."""
    march = "-march=x86-64-v3"
    environ = told({"CFLAGS": "-g", "A": "1", "PATH": ""}, properties("x86_64 :: level :: v3"))
    assert environ == {
        "A": "1",
        "PATH": "",
        "CFLAGS": f"-g {march}",
        "CXXFLAGS": march,
        "FFLAGS": march,
        "FCFLAGS": march,
    }
    environ = told({}, properties("aarch64 :: version :: 8.2a"), "-O3", machine=ARM)
    assert environ == {
        "CFLAGS": "-march=armv8.2-a -O3",
        "CXXFLAGS": "-march=armv8.2-a -O3",
        "FFLAGS": "-march=armv8.2-a",
        "FCFLAGS": "-march=armv8.2-a",
    }
    assert told({"CFLAGS": "-g"}, properties(), machine=ARM) == {"CFLAGS": "-g"}


def test_compilers_that_meson_calls(tmp_path: Path) -> None:
    """Meson gets flags with its compilers too: it looks at no variable of a project's `c_args`."""
    for name in ("gcc", "c++", "g++", "gfortran"):
        (tmp_path / name).touch(0o755)
    v3 = properties("x86_64 :: level :: v3")
    environ = {"PATH": str(tmp_path), "CXX": "ccache clang++"}
    found = told(environ, v3, "-O3")
    assert {name: found[name] for name in ("CC", "CXX", "FC")} == {
        "CC": "gcc -march=x86-64-v3 -O3",
        "CXX": "ccache clang++ -march=x86-64-v3 -O3",
        "FC": "gfortran -march=x86-64-v3",
    }
    setuptools = BuildInputs(environ, machine=INTEL, backend="setuptools.build_meta")
    assert with_flags(setuptools, v3).environ["CXX"] == "ccache clang++"


def test_flags_of_the_plain_build_stay() -> None:
    """Where a variable would replace what a backend has, it begins with that.

    One that the user has set replaces it in the plain build, too, so nothing comes before it.
    """
    inputs = BuildInputs(
        {"CXXFLAGS": "-O1", "PATH": ""},
        machine=INTEL,
        backend="setuptools.build_meta",
        compiler=Compiler("gcc", "-DNDEBUG -O3"),
    )
    environ = with_flags(inputs, properties("x86_64 :: level :: v3"), ["-funroll-loops"]).environ
    assert environ["CFLAGS"] == "-DNDEBUG -O3 -march=x86-64-v3 -funroll-loops"
    assert environ["CXXFLAGS"] == "-O1 -march=x86-64-v3 -funroll-loops"
    assert environ["FFLAGS"] == "-march=x86-64-v3"
    assert with_flags(inputs, properties(), ["-g"]).environ["CFLAGS"] == "-DNDEBUG -O3 -g"
    assert with_flags(inputs, properties()) == inputs


def test_the_linker_marks_the_level() -> None:
    """A linker that can do it lets the loader refuse the library on an older processor."""
    if shutil.which("gcc") is None or sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("needs gcc on Linux on x86-64")
    environ = {"LDFLAGS": "-s", "PATH": os.environ["PATH"]}
    v3 = properties("x86_64 :: level :: v3")
    assert told(environ, v3)["LDFLAGS"] == "-s -Wl,-z,x86-64-v3"
    assert told({**environ, "PATH": ""}, v3)["LDFLAGS"] == "-s"


@pytest.mark.parametrize("backend", ["mesonpy", "scikit_build_core.build", "maturin"])
def test_build_types(backend: str) -> None:
    """Meson, CMake and cargo have flags of their own besides, which nothing replaces."""
    inputs = BuildInputs(backend=backend, compiler=Compiler("gcc", "-DNDEBUG -O3"))
    assert base_flags(inputs) == ""


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


WINDOWS = {"platform_machine": "AMD64", "sys_platform": "win32"}


@pytest.mark.parametrize(
    ("level", "option"), [("v1", None), ("v3", "/arch:AVX2"), ("v4", "/arch:AVX512")]
)
def test_windows(level: str, option: str | None) -> None:
    """The compiler of Microsoft reads `CL`, whoever calls it, and knows two of the levels."""
    wanted = properties(f"x86_64 :: level :: {level}")
    environ = {"CL": "/Zi", "CFLAGS": "-g"}
    assert told(environ, wanted, machine=WINDOWS) == {
        "CL": f"/Zi {option}" if option else "/Zi",
        "CFLAGS": "-g",
    }
    assert told({}, properties(), "/fp:fast", machine=WINDOWS) == {"CL": "/fp:fast"}
    assert flags_of(wanted, WINDOWS) == ((option,) if option else ())


@pytest.mark.parametrize(
    ("level", "own", "registers"),
    [
        ("v1", [], "xmm"),
        ("v3", [], "ymm"),
        ("v4", [], "zmm"),
        ("v3", ["/arch:AVX512"], "zmm"),  # what a project says for a file counts more
    ],
)
def test_what_reads_it(level: str, own: list[str], registers: str, tmp_path: Path) -> None:
    """A compiler with the options of Microsoft's hears the variable, whoever calls it."""
    programs = map(shutil.which, ("clang-cl", "clang-cl-19", "clang-cl-15"))
    program = next(filter(None, programs), None)
    if program is None or shutil.which("objdump") is None:
        pytest.skip("needs clang-cl and objdump")
    (tmp_path / "fast.c").write_text(
        "void scaled(int *__restrict out, const int *__restrict in, int factor, int count)\n"
        "{ for (int i = 0; i < count; i++) out[i] += in[i] * factor; }\n"
    )
    inputs = BuildInputs(dict(os.environ), machine=WINDOWS)
    environ = with_flags(inputs, properties(f"x86_64 :: level :: {level}")).environ
    words = [
        program,
        "--target=x86_64-pc-windows-msvc",
        "/O2",
        *own,
        "/clang:-mprefer-vector-width=512",
    ]
    subprocess.run([*words, "/c", "fast.c"], cwd=tmp_path, env=environ, check=True)
    completed = subprocess.run(
        ["objdump", "-d", tmp_path / "fast.obj"], capture_output=True, text=True, check=True
    )
    widest = next(one for one in ("zmm", "ymm", "xmm") if one in completed.stdout)
    assert widest == registers


@pytest.mark.parametrize(
    ("machine", "text", "message"),
    [
        (ARM, "x86_64 :: level :: v3", r"this machine \(arm64\) cannot use"),
        (WINDOWS, "x86_64 :: level :: v2", "the compiler of Microsoft has no option for x86_64 v2"),
    ],
)
def test_elsewhere(machine: dict[str, str], text: str, message: str) -> None:
    """Flags that the compiler here would not understand are refused."""
    with pytest.raises(InvalidConfiguration, match=message):
        with_flags(BuildInputs(machine=machine), properties(text))
