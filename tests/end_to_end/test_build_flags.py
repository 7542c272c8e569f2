"""Flags of variants: those of the plain build and more, for every language and release."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from end_to_end.backends import MESON, SCIKIT, SETUPTOOLS, SUM, TABLE, write

pytestmark = [
    pytest.mark.network,
    pytest.mark.usefixtures("registry"),
    pytest.mark.skipif(
        not (sys.platform == "linux" and os.uname().machine == "x86_64"),
        reason="is for Linux on x86-64",
    ),
]

Build = Callable[..., dict[str | None, Path]]
LONG = pytest.mark.backends_long
MARCH = "-march=x86-64-v3"


@pytest.fixture
def build(wheelfit: Callable[..., str], tmp_path: Path) -> Build:
    """Return a function that builds a project plain and for v3, and returns the unpacked wheels."""

    def run(files: dict[str, str], *, environ: dict[str, str] | None = None) -> Any:
        project = write(tmp_path / "project", files)
        words = ("--plain", "--variant", "v3", "--flags", "--json")
        result = wheelfit("build", project, "-o", tmp_path / "dist", *words, environ=environ)
        found: dict[str | None, Path] = {}
        assert json.loads(result)["warnings"] == []
        for wheel in json.loads(result)["wheels"]:
            place = tmp_path / f"unpacked-{wheel['label']}"
            with zipfile.ZipFile(wheel["path"]) as archive:
                archive.extractall(place)
            found[wheel["label"]] = place
        return found

    return run


def options(place: Path) -> dict[str, set[str]]:
    """Return the options that GCC recorded, by source file."""
    (path,) = place.rglob("*.so")
    words = ["readelf", "--debug-dump=info", "--wide", str(path)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = {}
    for unit in text.split("Compilation Unit @")[1:]:
        name = re.search(r"DW_AT_name\s*:.*?([^\s/]+)$", unit, re.MULTILINE)
        producer = re.search(r"DW_AT_producer\s*:.*?(GNU .*)$", unit, re.MULTILINE)
        assert name is not None
        assert producer is not None
        found[name[1]] = {word for word in producer[1].split() if word.startswith("-")}
    return found


def disassembled(place: Path) -> str:
    """Return the disassembled compiled module of a wheel."""
    (path,) = [*place.rglob("*.so"), *place.glob("*.data/scripts/*")]
    words = ["objdump", "-d", str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def needs(*programs: str) -> None:
    """Skip a test if a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


SETUP = """
from setuptools import Extension, setup
more = ["-funroll-loops"]
setup(ext_modules=[
    Extension("set_demo.fast", ["fast.c"], extra_compile_args=more),
])
"""


def of_setuptools(requires: str, *, language: str = "c") -> dict[str, str]:
    """Return a project for a certain release of setuptools."""
    text = SETUPTOOLS["pyproject.toml"].replace('"setuptools>=77"', requires)
    text = re.sub(r"ext-modules = .*\n", "", text)
    files = {**SETUPTOOLS, "pyproject.toml": text, "setup.py": SETUP}
    if language == "c++":
        files["setup.py"] = SETUP.replace("fast.c", "fast.cpp")
        source = files.pop("fast.c").replace("restrict", "__restrict__").replace(" {0}", " {}")
        files["fast.cpp"] = source.replace('"total", total, METH_VARARGS, ""}, {0}', _CPP)
    return files


_CPP = '"total", total, METH_VARARGS, ""}, {0, 0, 0, 0}'


@pytest.mark.parametrize(
    "release",
    [
        pytest.param("setuptools==65.7.0", marks=LONG),
        pytest.param("setuptools==69.5.1", marks=LONG),
        pytest.param("setuptools==72.2.0", marks=LONG),
        pytest.param("setuptools==74.1.3", marks=LONG),
        pytest.param("setuptools==75.8.2", marks=LONG),
        pytest.param("setuptools==80.9.0", marks=LONG),
        "setuptools",
    ],
)
@pytest.mark.parametrize("language", ["c", "c++"])
def test_setuptools(release: str, language: str, build: Build) -> None:
    """No option of the plain build is missing, whether `CFLAGS` adds options or replaces them."""
    needs("g++", "readelf")
    places = build(of_setuptools(f'"{release}", "wheel"', language=language))
    plain, variant = options(places[None]), options(places["v3"])
    if not plain:
        pytest.skip("this interpreter was built without -g")
    assert plain.keys() == variant.keys()
    for name, words in plain.items():
        assert MARCH in variant[name]
        kept = {word for word in words if not word.startswith(("-march", "-mtune"))}
        assert variant[name] - {MARCH} >= kept
        assert {word for word in variant[name] if word.startswith("-O")} == {
            word for word in words if word.startswith("-O")
        }
    assert "__assert_fail" not in disassembled(places["v3"])


def test_flags_of_the_environment(build: Build) -> None:
    """Flags of the environment apply to the plain wheel and the variant alike."""
    needs("gcc", "readelf")
    environ = {"CFLAGS": "-g -O3 -fno-inline"}
    places = build(of_setuptools('"setuptools"'), environ=environ)
    (plain,), (variant,) = (options(places[one]).values() for one in (None, "v3"))
    assert {"-O3", "-fno-inline"} <= plain & variant
    assert "-fwrapv" not in plain | variant  # of the interpreter, which the user has replaced
    assert MARCH in variant - plain


CYTHON = {
    **of_setuptools('"setuptools", "cython"'),
    "setup.py": SETUP.replace("fast.c", "fast.pyx"),
    "fast.pyx": """
from libc.string cimport memset
def total(int factor):
    cdef int i, result = 0
    cdef int[64] given, out
    memset(out, 0, sizeof(out))
    for i in range(64):
        given[i] = i
    for i in range(64):
        out[i] += given[i] * factor
    for i in range(64):
        result += out[i]
    return result
""",
}
CYTHON.pop("fast.c")
OWN_ARGS = {
    **MESON,
    "meson.build": MESON["meson.build"].replace(
        "version: '1.0'", "version: '1.0', default_options: ['c_args=-DOWN']"
    ),
    "fast.c": f"#ifndef OWN\n#error what the project tells compilers is missing\n#endif\n{SUM}",
}
FORTRAN = {
    **SCIKIT,
    "CMakeLists.txt": SCIKIT["CMakeLists.txt"]
    .replace("LANGUAGES C", "LANGUAGES C Fortran")
    .replace("fast MODULE fast.c", "fast MODULE fast.c scaled.f90"),
    "fast.c": re.sub(
        r"void scaled\(.*?\n}\n", "void scaled(int*, const int*, int, long);", SUM, flags=re.DOTALL
    ),
    "scaled.f90": """
subroutine scaled(out, given, factor, count) bind(c)
  use iso_c_binding
  integer(c_long), value :: count
  integer(c_int), value :: factor
  integer(c_int), intent(inout) :: out(count)
  integer(c_int), intent(in) :: given(count)
  out = out + given * factor
end subroutine
""",
}
CMAKE_IN_SETUP = {
    **of_setuptools('"setuptools", "cmake", "ninja"'),
    "setup.py": """
import os, subprocess, sysconfig
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
class CMake(build_ext):
    def build_extension(self, ext):
        target = os.path.abspath(self.get_ext_fullpath(ext.name))
        folder = os.path.abspath(self.build_temp)
        subprocess.run(["cmake", "-G", "Ninja", "-S", ".", "-B", folder,
                        "-DCMAKE_BUILD_TYPE=Release", "-DTARGET=" + target,
                        "-DHEADERS=" + sysconfig.get_path("include")], check=True)
        subprocess.run(["cmake", "--build", folder], check=True)
setup(ext_modules=[Extension("set_demo.fast", [])], cmdclass={"build_ext": CMake})
""",
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.15...4.0)
project(demo LANGUAGES C)
add_library(fast MODULE fast.c)
target_include_directories(fast PRIVATE ${HEADERS})
add_custom_command(TARGET fast POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:fast> ${TARGET})
""",
}
RUST = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools", "setuptools-rust"]
build-backend = "setuptools.build_meta"
[project]
name = "rust-demo"
version = "1.0"
[tool.setuptools]
packages = ["rust_demo"]
[[tool.setuptools-rust.ext-modules]]
target = "rust_demo.fast"
binding = "NoBinding"
py-limited-api = true
"""
    + TABLE,
    "Cargo.toml": '[package]\nname = "fast"\nversion = "1.0.0"\nedition = "2021"\n'
    '[lib]\nname = "fast"\ncrate-type = ["cdylib"]\n',
    "rust_demo/__init__.py": "",
    "src/lib.rs": """
#[no_mangle]
pub extern "C" fn scaled(out: &mut [i32; 64], given: &[i32; 64], factor: i32) {
    for (a, b) in out.iter_mut().zip(given) { *a = a.wrapping_add(b.wrapping_mul(factor)); }
}
""",
    ".cargo/config.toml": '[build]\nrustflags = ["--cfg", "own"]\n',
}
MATURIN = {
    "pyproject.toml": """
[build-system]
requires = ["maturin>=1.7"]
build-backend = "maturin"
[project]
name = "rust-demo"
version = "1.0"
[tool.maturin]
bindings = "bin"
"""
    + TABLE,
    "Cargo.toml": '[package]\nname = "rust-demo"\nversion = "1.0.0"\nedition = "2021"\n',
    "src/main.rs": f"""{RUST["src/lib.rs"].replace("#[no_mangle]", "#[no_mangle] #[inline(never)]")}
fn main() {{
    let mut out = [0; 64];
    scaled(&mut out, &[std::env::args().count() as i32; 64], 3);
    println!("{{}}", out[5]);
}}
""",
}


@LONG
@pytest.mark.parametrize(
    ("files", "programs"),
    [
        pytest.param(CYTHON, ["gcc"], id="cython"),
        pytest.param(OWN_ARGS, ["gcc"], id="c_args in meson.build"),
        pytest.param(FORTRAN, ["gcc", "gfortran"], id="fortran"),
        pytest.param(CMAKE_IN_SETUP, ["gcc"], id="cmake in setup.py"),
        pytest.param(RUST, ["cargo"], id="rust"),
        pytest.param(MATURIN, ["cargo"], id="maturin"),
    ],
)
def test_languages(files: dict[str, str], programs: list[str], build: Build) -> None:
    """The variant has 256-bit vector instructions, the plain wheel none; both are optimised."""
    needs("objdump", *programs)
    places = build(files)
    plain, variant = disassembled(places[None]), disassembled(places["v3"])
    assert re.search(r"vp(mulld|addd) .*%ymm", variant)
    assert "%ymm" not in plain
    assert frame_accesses(variant) < frame_accesses(plain) + 0.02


def frame_accesses(code: str) -> float:
    """Return the share of instructions that use the frame pointer."""
    lines = [line for line in code.splitlines() if "\t" in line]
    return sum("(%rbp)" in line for line in lines) / len(lines)
