"""Code for newer processors that runs on any processor is found, and code that is chosen is not."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from wheels.binaries.extension_modules import DISPATCHING, INTEGERS, MODULE, compiled

from wheelfit.wheels.binaries.facts import Binary
from wheelfit.wheels.binaries.instructions import with_instructions
from wheelfit.wheels.binaries.reading import read_binary
from wheelfit.wheels.binaries.unguarded_instructions import unguarded_code

PUBLISHED = (
    "blosc2==4.14.1",
    "cryptography==50.0.2",
    "lz4==4.4.5",
    "msgpack==1.2.4",
    "numpy==2.4.6",
    "orjson==3.13.0",
    "pillow==13.0.0",
    "regex==2026.11.15",
    "simsimd==6.5.16",
    "tokenizers==0.23.3",
    "ujson==6.1.0",
    "xxhash==4.1.0",
    "zstandard==0.25.0",
)
"""Wheels that anybody may install, many of which choose by the processor when they run."""


def counted(data: bytes, name: str = "some/fast.so") -> Binary:
    """Return what is known of a library, its instructions too."""
    file = io.BytesIO(data)
    found = read_binary(file, name)
    assert found is not None
    binary = with_instructions(found, file)
    assert binary.faults == ()
    return binary


@pytest.mark.parametrize(
    ("march", "claimed", "level"),
    [
        ("x86-64", "v1", None),
        ("x86-64-v2", "v2", None),
        ("x86-64-v3", "v1", "v3"),
        ("x86-64-v3", "v2", "v3"),
        ("x86-64-v3", "v3", None),
        ("skylake", "v1", "v3"),
        ("skylake-avx512", "v1", "v4"),
        ("skylake-avx512", "v3", "v4"),
        ("skylake-avx512", "v4", None),
    ],
)
def test_methods(march: str, claimed: str, level: str | None, tmp_path: Path) -> None:
    """P-102: a method of a module runs on any processor, so its code must fit the claim."""
    binary = counted(compiled(tmp_path, MODULE, "-mprefer-vector-width=512", march=march))
    found = unguarded_code([binary], claimed)
    assert [one.level for one in found] == ([] if level is None else [level])
    for one in found:
        assert one.count > 0
        assert "the loader or Python calls" in str(one)


def test_modules_of_free_threaded_builds(tmp_path: Path) -> None:
    """P-102: their definitions begin with a longer head."""
    source = MODULE.replace("head[5]", "head[7]")
    assert source != MODULE
    binary = counted(compiled(tmp_path, source))
    assert binary.levels.use is not None
    assert dict(binary.levels.use.at_start)["v3"] > 0


def test_initialisers(tmp_path: Path) -> None:
    """P-102: what the loader calls runs on any processor."""
    source = (
        "double table[64]; __attribute__((constructor)) static void fill(void) "
        "{ for (int i = 0; i < 64; i++) table[i] = table[i] * 1.5 + i; }"
    )
    (found,) = unguarded_code([counted(compiled(tmp_path, source + DISPATCHING))])
    assert "the loader or Python calls" in found.reason


def test_everything_is_of_a_level(tmp_path: Path) -> None:
    """P-102: where no SSE is left nothing runs elsewhere, even if something asks."""
    alone = MODULE.partition("static struct method methods")[0].replace("static double", "double")
    binary = counted(compiled(tmp_path, alone + DISPATCHING))
    (found,) = unguarded_code([binary])
    assert "leaves 0 instructions of SSE" in found.reason


@pytest.mark.parametrize(
    "source",
    [
        MODULE + DISPATCHING,
        MODULE
        + '__attribute__((target_clones("default,arch=haswell,arch=skylake-avx512")))'
        + "double sum(double *v, int n)"
        + "{ double s = 0; for (int i = 0; i < n; i++) s += v[i]; return s; }",
    ],
    ids=["asks", "clones"],
)
def test_what_is_chosen(source: str, tmp_path: Path) -> None:
    """P-102: functions for several processors, of which one is chosen, are as they should be."""
    binary = counted(compiled(tmp_path, source, march="x86-64"))
    assert dict(binary.levels.instructions or ()).keys() & {"v3", "v4"}
    assert unguarded_code([binary]) == ()


ASSEMBLER = """
__asm__(".text\\n.globl wide\\n.type wide,@function\\nwide:\\n"
        ".rept 40\\nvpaddd %ymm1,%ymm2,%ymm3\\n.endr\\nret\\n");
"""
"""A function that the table for exceptions does not list, as assemblers write them."""


@pytest.mark.parametrize("before", ["", "__attribute__((constructor)) void start(void) {}"])
def test_what_follows_a_method(before: str, tmp_path: Path) -> None:
    """P-102: a function that no table lists does not belong to the one in front of it."""
    options = ("-fno-toplevel-reorder", "-fno-reorder-functions")
    source = DISPATCHING + (before or MODULE) + ASSEMBLER
    binary = counted(compiled(tmp_path, source, *options, march="x86-64"))
    assert binary.levels.use is not None
    assert binary.levels.use.avx >= 40
    assert dict(binary.levels.use.at_start) == {}
    assert unguarded_code([binary]) == ()


def test_nobody_asks(tmp_path: Path) -> None:
    """P-102: without vectors it counts whether anything in the wheel asks for the processor."""
    binary = counted(compiled(tmp_path / "integers", INTEGERS, "-funroll-loops"))
    (found,) = unguarded_code([binary])
    assert "no code in the wheel detects" in found.reason
    asking = counted(compiled(tmp_path / "asking", DISPATCHING, march="x86-64"), "some/lib.so")
    assert unguarded_code([binary, asking]) == ()
    assert unguarded_code([binary], is_whole=False) == ()


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        ("some/fast.so", True),
        ("some/favx2.so", True),
        ("some/lib_avx2.so", False),
        ("some/libkernels-haswell.so", False),
        ("lib/glibc-hwcaps/x86-64-v3/libfast.so", False),
        ("some/fast.avx512_skx.so", False),
    ],
)
def test_names(name: str, is_found: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """P-102: a file that is named after a processor is one of several to choose from."""
    binary = counted(compiled(tmp_path, MODULE), name)
    assert bool(unguarded_code([binary])) == is_found


def test_no_claim_from_tzcnt(tmp_path: Path) -> None:
    """P-102: TZCNT is written for every processor, since older ones read it as BSF."""
    source = "int f(unsigned x) { return __builtin_ctz(x | 1); }"
    binary = counted(compiled(tmp_path, source, march="x86-64"))
    assert dict(binary.levels.instructions or ()).keys() == {"v1"}


def test_hostile(tmp_path: Path) -> None:
    """B-60: whatever stands in its tables, counting ends, with a fault or without."""
    data = compiled(tmp_path, MODULE)
    for value in (b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"\1\0\0\0"):
        for place in range(16, len(data) - 8, 389):
            broken = io.BytesIO(data[:place] + value + data[place + len(value) :])
            binary = read_binary(broken, "some")
            if binary is not None:
                unguarded_code([with_instructions(binary, broken)])


@pytest.mark.binaries_long
@pytest.mark.parametrize("requirement", PUBLISHED)
def test_published(requirement: str, environment_with: Callable[..., Path]) -> None:
    """P-102: nothing is found in wheels that run everywhere."""
    folder = environment_with(requirement, "--no-deps").parents[1] / "lib"
    binaries = []
    for path in sorted(folder.rglob("*.so*")):
        with path.open("rb") as file:
            binary = read_binary(file, path.relative_to(folder).as_posix())
            if binary is not None:
                binaries.append(with_instructions(binary, file))
    assert binaries
    assert unguarded_code(binaries) == ()
