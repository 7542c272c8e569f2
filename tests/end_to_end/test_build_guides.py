"""The guides to building, executed: their files, commands and output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from end_to_end.guides import Section, follow, sections
from web_servers import served

pytestmark = [
    pytest.mark.network,
    pytest.mark.usefixtures("registry"),
    pytest.mark.skipif(
        not (sys.platform == "linux" and os.uname().machine == "x86_64"),
        reason="is for Linux on x86-64",
    ),
    pytest.mark.skipif(
        not Path(sysconfig.get_path("include"), "Python.h").exists(),
        reason="needs the headers of Python",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder for a project."""
    place = tmp_path / "project"
    place.mkdir()
    return place


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the cache that all tests share."""
    return tmp_path_factory.getbasetemp() / "wheelfit-cache"


def needs(*programs: str) -> None:
    """Skip a test if a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


def needs_libraries(*names: str) -> None:
    """Skip a test if a library cannot be linked (Debian: libopenblas-dev, libblis-dev)."""
    for name in names:
        words = ["gcc", "-shared", "-o", os.devnull, f"-l{name}"]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip(f"needs lib{name}")


GPUS = sections("build-for-gpus.md")
LANGUAGES = sections("build-other-languages.md")
LONG = pytest.mark.backends_long


@pytest.mark.parametrize("backend", ["setuptools", pytest.param("CMake", marks=LONG)])
def test_cuda(backend: str, folder: Path, cache: Path, wheelfit: Callable[..., str]) -> None:
    """B-60: NVIDIA's compiler generates exactly the code that each label claims."""
    needs("g++")
    shared = GPUS["With setuptools"].files
    section = GPUS[f"With {backend}"]
    files = {name: shared[name] for name in ("kernel.cu", "src/saxpy/__init__.py")}
    follow(Section({**files, **section.files}, section.commands), folder, cache)
    code = {}
    for path in sorted((folder / "dist").glob("*-linux_x86_64-*.whl")):
        report = json.loads(wheelfit("wheel", "inspect", path, "--json"))
        (binary,) = report["wheels"][0]["binaries"]
        label = path.stem.rpartition("-")[2]
        code[label] = {f"{one['kind']} {one['architecture']}" for one in binary["code"]}
    if backend == "setuptools":
        check_choices(folder / "public", folder, wheelfit)
    assert code == {
        "ampere": {"machine code 80", "machine code 86"},
        "hopper": {"machine code 90", "ptx 90"},
        "blackwell": {"machine code 120"},
    }


@pytest.mark.binaries_long
@pytest.mark.parametrize(
    ("label", "code"),
    [
        ("ampere", {"machine code 80", "machine code 86"}),
        ("hopper", {"machine code 90", "ptx 90"}),
    ],
)
def test_pytorch(
    label: str,
    code: set[str],
    folder: Path,
    wheelfit: Callable[..., str],
    environment_with: Callable[..., Path],
) -> None:
    """B-60: an extension of PyTorch has exactly the code of its label."""
    needs("g++")
    toolkits = sorted(Path("/usr/local").glob("cuda-13*/bin/nvcc"))
    if not toolkits:
        pytest.skip("needs a toolkit of CUDA 13 in /usr/local")
    python = environment_with("torch", "setuptools", "ninja", "numpy")
    follow(Section(GPUS["With PyTorch"].files), folder, folder)
    environ = {**on_path(python), "CUDA_HOME": str(toolkits[-1].parents[1])}
    words = ("--python", python, "--no-isolation", "--flags", "-o", folder / "dist", "--json")
    told = json.loads(wheelfit("build", folder, "--variant", label, *words, environ=environ))
    (wheel,) = told["wheels"]
    report = json.loads(wheelfit("wheel", "inspect", wheel["path"], "--json"))
    (binary,) = report["wheels"][0]["binaries"]
    assert {f"{one['kind']} {one['architecture']}" for one in binary["code"]} == code


def check_choices(index: Path, folder: Path, wheelfit: Callable[..., str]) -> None:
    """Download from a server for several machines: pip gets the plain wheel, others their GPU's."""
    with served(index) as origin:
        url = f"{origin}/simple/"
        machines = {"sm86": "ampere", "sm90": "hopper", "sm120": "blackwell"}
        for gpu, label in machines.items():
            machine = ("--for", f"cuda-13.0-{gpu}", "-d", folder / gpu)
            wheelfit("download", "saxpy", "-i", url, "--no-deps", *machine)
            (wheel,) = (folder / gpu).glob("*.whl")
            assert wheel.stem.rpartition("-")[2] == label
        pip = [sys.executable, "-m", "pip", "download", "-q", "--isolated", "--no-deps"]
        subprocess.run([*pip, "-i", url, "saxpy", "-d", folder / "pip"], check=True)
    (plain,) = (folder / "pip").iterdir()
    assert plain.stem.endswith("linux_x86_64")


def test_hip(folder: Path, cache: Path) -> None:
    """B-60: clang generates the code for AMD's GPUs that each label claims."""
    needs("hipcc")
    section = GPUS["With HIP"]
    assert section.commands.pop(0)[0].startswith("sudo apt-get")
    follow(section, folder, cache)


@pytest.mark.parametrize(
    ("section", "programs"),
    [
        ("Rust with maturin", ["cargo"]),
        pytest.param("Rust beside C with setuptools", ["cargo", "gcc"], marks=LONG),
        ("Fortran and BLAS with Meson", ["gcc", "gfortran", "pkg-config"]),
        pytest.param("Cython", ["gcc"], marks=LONG),
        pytest.param("pybind11", ["g++"], marks=LONG),
        pytest.param("nanobind", ["g++"], marks=LONG),
        pytest.param("cffi", ["gcc"], marks=LONG),
        ("Go", ["gcc", "go"]),
    ],
)
def test_languages(section: str, programs: list[str], folder: Path, cache: Path) -> None:
    """B-26: every compiler of a project gets the flags of its variant."""
    needs(*programs)
    if "BLAS" in section:
        needs_libraries("openblas", "blis")
    follow(LANGUAGES[section], folder, cache)


@LONG
def test_zig(folder: Path, cache: Path) -> None:
    """The variant has the instructions of its level, and the plain wheel the baseline's."""
    needs("objdump")
    follow(LANGUAGES["Zig"], folder, cache)
    registers = {}
    for wheel in (folder / "dist").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".so"))
            library = archive.extract(name, folder / wheel.stem)
        code = disassembled(library)
        registers[wheel.stem.rpartition("-")[2]] = {
            register for register in ("xmm", "ymm", "zmm") if f"%{register}" in code
        }
    assert registers == {"linux_x86_64": {"xmm"}, "v3": {"xmm", "ymm"}}


def disassembled(library: str | Path) -> str:
    """Return the machine code of a library as text."""
    words = ["objdump", "-d", str(library)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


TARGET_FLAGS = """args = ["--config", "target.'cfg(unix)'.rustflags=['--cfg', 'mine']"]"""


@LONG
def test_crates_without_flags(folder: Path, cache: Path, wheelfit: Callable[..., str]) -> None:
    """If target flags replace those of a variant, only the C parts are tuned."""
    needs("cargo", "gcc")
    files = dict(LANGUAGES["Rust beside C with setuptools"].files)
    files["pyproject.toml"] = files["pyproject.toml"].replace(
        'binding = "NoBinding"', f'binding = "NoBinding"\n{TARGET_FLAGS}'
    )
    follow(Section(files), folder, cache)
    report = json.loads(
        wheelfit("build", folder, "-o", folder / "dist", "--variant", "v3", "--flags", "--json")
    )
    (wheel,) = report["wheels"]
    assert wheel["tuned"]["crates"] == {"tuned": 0, "others": ["in_rust"]}
    assert wheel["tuned"]["unchanged"] == ["mixed/in_rust.abi3.so"]
    assert len(wheel["tuned"]["changed"]) == 1
    assert "1 of 1 crates without -Ctarget-cpu=x86-64-v3 (in_rust)" in report["warnings"][0]


@LONG
def test_c_and_rust(
    folder: Path, wheelfit: Callable[..., str], environment_with: Callable[..., Path]
) -> None:
    """Both parts of a library are tuned: the parser of orjson in C, and the rest in Rust."""
    needs("cargo", "gcc", "objdump")
    python = environment_with("pip", "maturin")
    words = [str(python), "-m", "pip", "download", "--no-deps", "--no-build-isolation"]
    words += ["--no-binary", ":all:", "orjson==3.13.0", "--dest", str(folder)]
    subprocess.run(words, check=True, capture_output=True, env=on_path(python))
    v3 = ("--property", "x86_64 :: level :: v3", "--provider", "x86_64=x86-64-variant-provider<1")
    report = json.loads(
        wheelfit(
            "build", folder / "orjson-3.13.0.tar.gz", "-o", folder / "dist", "--variant", "v3", *v3,
            "--flags", "--json",
        )
    )  # fmt: skip
    (wheel,) = report["wheels"]
    assert report["warnings"] == []
    assert wheel["flags"] == ["-march=x86-64-v3", "-Ctarget-cpu=x86-64-v3"]
    assert wheel["tuned"]["crates"]["others"] == []
    assert wheel["tuned"]["crates"]["tuned"] > 5
    (library,) = wheel["tuned"]["changed"]
    with zipfile.ZipFile(wheel["path"]) as archive:
        path = archive.extract(library, folder)
    functions = re.split(r"^\w+ <(.*)>:$", disassembled(path), flags=re.MULTILINE)
    with_ymm = {
        name for name, text in zip(functions[1::2], functions[2::2], strict=True) if "ymm" in text
    }
    assert any("NumpyArray" in name for name in with_ymm)  # in Rust
    assert "bigint_set_buf" in with_ymm  # in C


def on_path(python: Path) -> dict[str, str]:
    """Return an environment with the programs beside an interpreter on its path."""
    return {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
