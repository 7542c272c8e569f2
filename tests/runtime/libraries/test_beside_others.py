"""Others that look for NVIDIA's libraries find those of the store."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from python_runs import RUNTIME_SOURCE, plain_environ, printed_by
from runtime.libraries.stored import foreign

PATHFINDER = """
import json, sys
from wheelfit_runtime import initialize_cuda
cuda = initialize_cuda(sys.argv[1], ["cudart"])
from cuda.pathfinder import load_nvidia_dynamic_lib
found = load_nvidia_dynamic_lib("cudart")
print(json.dumps([cuda.path("cudart"), found.abs_path, found.was_already_loaded_from_elsewhere]))
"""


BEGIN = """
import json, os, sys
from wheelfit_runtime import initialize_cuda
cuda = initialize_cuda(sys.argv[1], ["cudart", "nvrtc", "nvvm", "nvjitlink", "curand", "cccl"])
os.environ["CUDA_PATH"] = root = cuda.root()
def tell(*told):
    with open("/proc/self/maps") as maps:
        mapped = sorted({line.split()[-1] for line in maps if ".so" in line})
    print(json.dumps([told, mapped, cuda.paths]))
"""

NUMBA = """
import math
from numba import cuda as numba_cuda
def waves(x):
    i = numba_cuda.grid(1)
    x[i] = math.sin(x[i])
tell(
    numba_cuda.compile_ptx(waves, "void(float32[:])", cc=(9, 0))[0],
    len(numba_cuda.compile(waves, "void(float32[:])", cc=(9, 0), output="ltoir")[0]),
)
"""

CORE = """
from cuda.core import Program, ProgramOptions
source = "#include <cuda_fp16.h>\\nextern \\"C\\" __global__ void one(__half *x) { *x = 1; }"
places = [f"{root}/include", f"{root}/include/cccl"]
options = ProgramOptions(arch="sm_90", include_path=places)
tell(Program(source, "c++", options).compile("cubin").code[:4].decode("latin-1"))
"""

CUPY = """
import cupy
from cupy._core import core
from cupy_backends.cuda.libs import curand, nvrtc
bundled = os.path.join(os.path.dirname(cupy.__file__), "_core", "include")
source = "#include <cupy/float16.cuh>\\nextern \\"C\\" __global__ void one(float16 *x) { *x = 1; }"
program = nvrtc.createProgram(source, "one.cu", [], [])
include = [f"-I{bundled}", f"-I{root}/include", *core._get_cccl_include_options()]
nvrtc.compileProgram(program, ["-arch=sm_90", "-std=c++17", *include])
tell(nvrtc.getCUBIN(program)[:4].decode("latin-1"), list(nvrtc.getVersion()), curand.getVersion())
"""

COMMON = ("cuda-pathfinder==1.9.0", "cuda-core==1.2.2", "numba-cuda==0.30.4")
OTHERS = {
    "12.9.2": (*COMMON, "cuda-bindings==12.9.10", "cupy-cuda12x==14.2.0"),
    "13.5.0": (*COMMON, "cuda-bindings==13.5.0", "cupy-cuda13x==14.2.0"),
}

Run = Callable[..., Any]

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="needs x86-64 Linux"
    ),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Yield a function that runs a program with an interpreter, and one store for all."""
    folder = tmp_path_factory.mktemp("beside-others")
    environ = {**plain_environ("CUDA_", "NUMBA_", "CUPY_"), "PYTHONPATH": str(RUNTIME_SOURCE)}
    environ |= {"WHEELFIT_LIBRARY_STORE": str(folder / "store"), "HOME": str(folder)}

    def call(python: Path, code: str, asked: str) -> Any:
        return json.loads(printed_by("-c", code, asked, python=python, environ=environ))

    yield call
    shutil.rmtree(folder)


def test_pathfinder_finds_ours(environment_with: Callable[..., Path], run: Run) -> None:
    """cuda-pathfinder, which CuPy and numba-cuda ask, takes what was loaded from the store."""
    python = environment_with("cuda-pathfinder==1.9.0")
    ours, theirs, was_loaded = run(python, PATHFINDER, "13")
    assert Path(ours).samefile(theirs)
    assert was_loaded


PRELOADING = """
import glob
def preload():
    # As PyTorch does: what lies in site-packages, by its path, for everybody to see.
    for path in sorted(glob.glob("SITE/nvidia/*/lib/lib*.so.*[0-9]")):
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
def number(library):
    found = ctypes.c_int()
    library.cudaRuntimeGetVersion(ctypes.byref(found))
    return found.value
"""


@pytest.fixture
def site(cuda_wheels: Path, tmp_path: Path) -> Path:
    """Return a folder in which another program has CUDA 12.4."""
    (wheel,) = cuda_wheels.glob("nvidia_cuda_runtime_cu12-12.4*")
    shutil.unpack_archive(wheel, tmp_path / "site-packages", "zip")
    return tmp_path / "site-packages"


def test_after_others(program: Run, site: Path) -> None:
    """What PyTorch has loaded is used, with a warning; what it has not comes from the store."""
    preloading = PRELOADING.replace("SITE", str(site))
    code = """
import warnings
preload()
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    cuda = initialize_cuda("12", ["cudart", "nvrtc"])
answer = [cuda.foreign_paths, [str(one.message) for one in told], cuda.path("nvrtc"), number(
    cuda.handle("cudart"))]
"""
    foreign_paths, told, nvrtc, version = program(preloading + code)
    theirs = str(site / "nvidia/cuda_runtime/lib/libcudart.so.12")
    assert foreign_paths == {"libcudart.so.12": theirs}
    assert len(told) == 1
    assert theirs in told[0]
    assert "/store/" in nvrtc
    assert version == 12040
    refused = program(f"{preloading}\npreload()\ninitialize_cuda('12.9')")
    assert refused["error"]["code"] == "another-library-loaded"


def test_before_others(program: Run, site: Path) -> None:
    """Who asks by name gets ours, though PyTorch loads its own by its path later."""
    code = """
cuda = initialize_cuda("12", ["cudart"])
preload()
answer = [number(cuda.handle("cudart")), number(ctypes.CDLL("libcudart.so.12"))]
"""
    assert program(PRELOADING.replace("SITE", str(site)) + code) == [12090, 12090]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("12.9.2", marks=pytest.mark.cuda_long),
        pytest.param("13.5.0", marks=pytest.mark.cuda_real),
    ],
)
@pytest.mark.parametrize(("name", "code"), [("numba", NUMBA), ("core", CORE), ("cupy", CUPY)])
def test_compile_with_ours(
    environment_with: Callable[..., Path], run: Run, name: str, code: str, asked: str
) -> None:
    """numba-cuda, cuda-core and CuPy compile with what is in the store, and load nothing else."""
    told, mapped, paths = run(environment_with(*OTHERS[asked]), BEGIN + code, asked)
    if name == "numba":
        assert ".target sm_90" in told[0]
        assert told[1] > 0
    else:
        assert told[0] == "\x7fELF"
    major, minor, _ = map(int, asked.split("."))
    if name == "cupy":
        assert told[1:] == [[major, minor], {12: 10310, 13: 10405}[major]]
    assert foreign(mapped, paths) == []
