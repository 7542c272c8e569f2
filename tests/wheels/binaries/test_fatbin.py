"""CUDA fat binaries."""

from __future__ import annotations

import io
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from wheelfit.testing.binaries import elf_file, fat_binary, pe_file
from wheelfit.wheels.binaries.facts import ANY_SUFFIX, Binary, CodeKind
from wheelfit.wheels.binaries.reading import read_binary

COMPILED = Path(__file__).with_name("compiled")
"""What nvcc 13.5 and, of ``sm_90a.cubin``, ptxas 12.9 made of a kernel of one line."""
CUOBJDUMP = "nvidia-cuda-cuobjdump==13.5.37"
SMALL = ("nvidia-nvjpeg==13.3.2.43", "nvidia-nvjpeg-cu12==12.4.0.76")
LARGE = (
    ("cupy-cuda12x==14.2.0",),
    ("cupy-cuda13x==14.2.0",),
    ("bitsandbytes==0.50.2", "--no-deps"),
    ("onnxruntime-gpu==1.31.1", "--no-deps"),
)
COMPILERS = (
    "nvidia-cuda-nvcc==13.5.37",
    "nvidia-cuda-cccl==13.3.5.0.6",
    CUOBJDUMP,
)


def read(data: bytes, name: str = "some") -> Binary:
    """Return what a file is."""
    binary = read_binary(io.BytesIO(data), name)
    assert binary is not None
    return binary


def images(data: bytes) -> list[str]:
    """Return the code in a file that is sound."""
    found = read(data)
    assert not found.faults
    return [str(one) for one in found.code]


# --- what is read -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mixed.fatbin", ["sm_75", "sm_90a", "sm_100f", "compute_90a (PTX 9.5)"]),
        ("relocatable.fatbin", ["sm_90", "lto_90", "compute_90 (PTX 9.5)"]),
        ("uncompressed.fatbin", ["sm_80", "compute_80 (PTX 9.5)"]),
        ("sm_90a.cubin", ["sm_90?"]),  # not all compilers say more than the number
        ("sm_120a.cubin", ["sm_120?"]),
        ("text.ptx", ["compute_90a (PTX 9.5)"]),
    ],
)
def test_compiled(name: str, expected: list[str]) -> None:
    """B-60: kind, architecture with its letter and version of PTX are read."""
    found = read((COMPILED / name).read_bytes(), name)
    assert [str(one) for one in found.code] == expected
    assert not found.faults


def test_sections() -> None:
    """B-60: code is found in ELF and in PE files; what is not linked for devices stands apart."""
    sections = {".nv_fatbin": fat_binary("sm_90"), "__nv_relfatbin": fat_binary("sm_80", "lto_80")}
    found = read(elf_file(sections=sections))
    assert [str(one) for one in found.code] == ["sm_90"]
    assert [str(one) for one in found.unlinked] == ["sm_80", "lto_80"]
    found = read(pe_file(sections={".nv_fatb": fat_binary("sm_90")}))
    assert [str(one) for one in found.code] == ["sm_90"]


def test_several_containers() -> None:
    """B-60: containers stand one behind the other, with zeros between."""
    data = fat_binary("sm_80") + bytes(24) + fat_binary("sm_90a", "compute_90 8.7") + fat_binary()
    assert images(data + bytes(40)) == ["sm_80", "sm_90a", "compute_90 (PTX 8.7)"]


def test_unknown_kind() -> None:
    """B-60: code of an unknown kind is called that."""
    data = bytearray(fat_binary("sm_90"))
    struct.pack_into("<H", data, 16, 64)
    (code,) = read(bytes(data)).code
    assert (code.kind, code.values) == (CodeKind.OTHER, ())


def test_values() -> None:
    """B-60, P-83: an image stands for a value of ``sm_arch``, or for several if it says little."""
    data = fat_binary("sm_90a", "sm_100f", "compute_80 8.0", "lto_90")
    values = {str(one): one.values for one in read(data).code}
    assert values == {
        "sm_90a": ("90a_real",),
        "sm_100f": ("100f_real",),
        "compute_80 (PTX 8.0)": ("80_virtual",),
        "lto_90": (),
    }
    (alone,) = read((COMPILED / "sm_90a.cubin").read_bytes()).code
    assert alone.suffix == ANY_SUFFIX
    assert alone.values == ("90_real", "90a_real", "90f_real")


# --- what is not sound ------------------------------------------------------------------------


def edited(place: int, form: str, value: int) -> bytes:
    """Return two containers, the second of which says something else."""
    data = bytearray(fat_binary("sm_80") + fat_binary("sm_90", "sm_75"))
    struct.pack_into(form, data, 88 + place, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("place", "form", "value", "fault"),
    [
        (0, "<I", 0x12345678, "there is no fat binary"),
        (4, "<H", 2, "unknown version 2"),
        (6, "<H", 0, "unknown version 1"),
        (8, "<Q", 2**63, "longer than its section"),
        (16 + 4, "<I", 8, "longer than its fat binary"),
        (16 + 8, "<Q", 2**64 - 64, "longer than its fat binary"),
        (16 + 28, "<I", 0, "unknown architecture 0"),
        (16 + 28, "<I", 2**31, "unknown architecture"),
        (8, "<Q", 100, "longer than its fat binary"),
    ],
)
def test_faults(place: int, form: str, value: int, fault: str) -> None:
    """B-60: what contradicts itself is called a fault, and what came before it is kept."""
    found = read(edited(place, form, value))
    assert "sm_80" in {str(one) for one in found.code}
    assert len(found.faults) == 1
    assert fault in found.faults[0]


@pytest.mark.parametrize("length", range(0, 200, 7))
def test_cut_off(length: int) -> None:
    """B-60: a section that ends too early is a fault, wherever that is."""
    whole = fat_binary("sm_80", "sm_90a")
    found = read(elf_file(sections={".nv_fatbin": whole[:length]}))
    # Less than a head of zeros and padding is nothing at all.
    assert bool(found.faults) == (16 <= length < len(whole))


# --- the oracle -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cuobjdump(environment_with: Callable[..., Path]) -> Path:
    """Give NVIDIA's program that lists what fat binaries have."""
    python = environment_with(CUOBJDUMP)
    (program,) = (python.parents[1] / "lib").rglob("bin/cuobjdump")
    return program


def told(cuobjdump: Path, path: Path) -> tuple[list[str], bool]:
    """Return what NVIDIA's program tells, each image once, as we write it; and whether that is all.

    It opens each image, and gives up at some of CUDA 12.1.
    """
    completed = subprocess.run([cuobjdump, path], capture_output=True, text=True, check=False)
    said = completed.stdout + completed.stderr
    gave_up = "Invalid ELF" in said
    assert not completed.returncode or gave_up or "does not contain device code" in said
    found = set()
    for kind, rest in re.findall(
        r"^Fatbin (elf|ptx|nvvm) code:\n=+\n((?:.+\n)*)", completed.stdout, re.MULTILINE
    ):
        lines = dict(re.findall(r"^(.+?) = (.*)$", rest, re.MULTILINE))
        name = lines["arch"].removeprefix("sm_")
        if kind == "ptx":
            isa = lines["code version"].strip("[]").replace(",", ".")
            found.add(f"compute_{name} (PTX {isa})")
        else:
            found.add(f"{'sm' if kind == 'elf' else 'lto'}_{name}")
    return sorted(found), not gave_up


def agree(cuobjdump: Path, path: Path) -> int:
    """Compare one file; return how much code both find."""
    with path.open("rb") as file:
        binary = read_binary(file, path.name)
    assert binary is not None
    assert not binary.faults
    ours = sorted(map(str, binary.code))
    theirs, is_all = told(cuobjdump, path)
    assert ours == theirs if is_all else set(ours) >= set(theirs), path.name
    # File names of its list leave the "f" out, and that of nothing else.
    completed = subprocess.run(
        [cuobjdump, "-lelf", path], capture_output=True, text=True, check=False
    )
    listed = set(re.findall(r"\.(sm_\d+[af]?)\.cubin$", completed.stdout, re.MULTILINE))
    if is_all:
        assert listed == {name.rstrip("f") for name in ours if name.startswith("sm_")}, path.name
    return len(ours)


@pytest.mark.network
@pytest.mark.parametrize("name", ["mixed.fatbin", "relocatable.fatbin", "uncompressed.fatbin"])
def test_compiled_as_cuobjdump_says(name: str, cuobjdump: Path) -> None:
    """B-60: NVIDIA's own program finds the same in what its compiler made."""
    assert agree(cuobjdump, COMPILED / name)


@pytest.mark.network
@pytest.mark.parametrize("requirement", SMALL)
def test_published_as_cuobjdump_says(
    requirement: str, cuobjdump: Path, environment_with: Callable[..., Path]
) -> None:
    """B-60: NVIDIA's own program finds the same in its published libraries."""
    compare_all(cuobjdump, environment_with(requirement))


@pytest.mark.binaries_long
@pytest.mark.parametrize("requirements", LARGE, ids=lambda one: one[0])
def test_large_as_cuobjdump_says(
    requirements: tuple[str, ...], cuobjdump: Path, environment_with: Callable[..., Path]
) -> None:
    """B-60: and in wheels of hundreds of megabytes."""
    compare_all(cuobjdump, environment_with(*requirements))


def compare_all(cuobjdump: Path, python: Path) -> None:
    """Compare all libraries of an environment."""
    libraries = [
        path
        for path in sorted((python.parents[1] / "lib").rglob("*.so*"))
        if path.is_file() and not path.is_symlink()
    ]
    assert sum(agree(cuobjdump, path) for path in libraries)


@pytest.mark.binaries_long
@pytest.mark.parametrize(
    "options",
    [
        ["-arch=sm_90a"],
        ["-gencode=arch=compute_90,code=[sm_90,compute_90]", "-gencode=arch=compute_75,code=sm_75"],
        ["-gencode=arch=compute_100f,code=[sm_100f,compute_100f]"],
        ["-gencode=arch=compute_100a,code=[sm_100a,compute_100a]", "--compress-mode=none"],
        ["-gencode=arch=compute_120f,code=sm_120f", "--compress-mode=speed"],
        ["-gencode=arch=compute_90,code=[lto_90,sm_90,compute_90]"],
        ["-rdc=true", "-gencode=arch=compute_80,code=[sm_80,compute_80]"],
        ["-gencode=arch=compute_121a,code=sm_121a", "-g", "-G"],
    ],
)
def test_own_code_as_cuobjdump_says(
    options: list[str], tmp_path: Path, environment_with: Callable[..., Path]
) -> None:
    """B-60: whatever the compiler is asked for, NVIDIA's program and we find the same."""
    python = environment_with(*COMPILERS)
    (tools,) = (python.parents[1] / "lib").rglob("bin/nvcc")
    source = tmp_path / "some.cu"
    source.write_text("__global__ void f(int *a) { a[threadIdx.x]++; }\n")
    library = tmp_path / "some.so"
    command: list[str | Path] = [
        tools,
        *options,
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "-o",
        library,
        source,
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert agree(tools.with_name("cuobjdump"), library)
