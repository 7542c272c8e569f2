"""NVIDIA's and Intel's own libraries, from the registry, through the user's pip."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from python_runs import RUNTIME_SOURCE, plain_environ, printed_by
from runtime.libraries.stored import foreign

from wheelfit_runtime.errors import Unreachable
from wheelfit_runtime.libraries.initializing import prepare
from wheelfit_runtime.libraries.machine import Machine, check_machine
from wheelfit_runtime.libraries.progress import Progress
from wheelfit_runtime.libraries.settings import usual_index
from wheelfit_runtime.libraries.toolkits import family_named
from wheelfit_runtime.libraries.transport_http import HttpTransport
from wheelfit_runtime.libraries.versions import Requirement
from wheelfit_runtime.loader.driver import Driver

pytestmark = [
    pytest.mark.usefixtures("registry"),
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="needs x86-64 Linux"
    ),
]

Real = Callable[..., Any]

CUDART = """
import ctypes, json, sys
from wheelfit_runtime import initialize_cuda
cuda = initialize_cuda(sys.argv[1], ["cudart"])
cudart = cuda.handle("cudart")
def number(function):
    found = ctypes.c_int(-1)
    return getattr(cudart, function)(ctypes.byref(found)), found.value
print(json.dumps({
    "version": cuda.version, "path": cuda.path("cudart"),
    "runtime": number("cudaRuntimeGetVersion"), "driver": number("cudaDriverGetVersion"),
    "count": number("cudaGetDeviceCount"),
}))
"""

PREPARED = """
import json, sys
from wheelfit_runtime.loader.driver import Driver
from wheelfit_runtime.libraries.initializing import prepare
from wheelfit_runtime.libraries.settings import store_folder
import os
chosen = prepare("cuda", sys.argv[1], ["cudart"], driver=Driver(None)).libraries[0]
print(json.dumps(f"{store_folder(os.environ)}/store/{chosen.sha256}/tree/{chosen.path}"))
"""

COMPARED = """
import ctypes, json, sys
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime import initialize_cuda
try:
    initialize_cuda(sys.argv[1], ["cudart"])
    ours = ""
except WheelfitError as error:
    ours = error.reference
theirs = ctypes.CDLL("PATH").cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))
print(json.dumps([ours, theirs]))
"""

NVRTC = """
import ctypes, json, sys
from wheelfit_runtime import initialize_cuda
cuda = initialize_cuda(sys.argv[1], ["nvrtc"])
nvrtc = cuda.handle("nvrtc")
source = b'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
def compile(architecture, kind):
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"twice.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=" + architecture)
    assert nvrtc.nvrtcCompileProgram(program, 1, options) == 0
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    made = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, made)
    return made.raw.decode("latin-1")
print(json.dumps([cuda.version, compile(b"compute_90", "PTX"), compile(b"sm_90", "CUBIN")]))
"""


COMPONENTS = """
import ctypes, json, sys
from wheelfit_runtime import initialize_cuda
asked, *components = sys.argv[1].split()
cuda = initialize_cuda(asked, components)
INT, SIZE = ctypes.c_int, ctypes.c_size_t
def filled(component, function, count=1):
    numbers = [INT() for _ in range(count)]
    code = getattr(cuda.handle(component), function)(*map(ctypes.byref, numbers))
    return [code, *(one.value for one in numbers)]
def property(component, function):
    numbers = [INT() for _ in range(3)]
    function = getattr(cuda.handle(component), function)
    return [*(function(i, ctypes.byref(one)) for i, one in enumerate(numbers))][0], [
        one.value for one in numbers
    ]
def returned(component, function):
    function = getattr(cuda.handle(component), function)
    function.restype = SIZE
    return 0, function()
ASKED = {
    "cudart": (filled, "cudaRuntimeGetVersion"),
    "nvrtc": (filled, "nvrtcVersion", 2),
    "nvjitlink": (filled, "nvJitLinkVersion", 2),
    "nvvm": (filled, "nvvmVersion", 2),
    "nvfatbin": (filled, "nvFatbinVersion", 2),
    "curand": (filled, "curandGetVersion"),
    "cufft": (filled, "cufftGetVersion"),
    "cusolver": (filled, "cusolverGetVersion"),
    "nccl": (filled, "ncclGetVersion"),
    "cufile": (filled, "cuFileGetVersion"),
    "nvshmem": (filled, "nvshmemx_vendor_get_version_info", 3),
    "cublas": (property, "cublasGetProperty"),
    "cusparse": (property, "cusparseGetProperty"),
    "cusparselt": (property, "cusparseLtGetProperty"),
    "cudss": (property, "cudssGetProperty"),
    "nvjpeg": (property, "nvjpegGetProperty"),
    "cudnn": (returned, "cudnnGetVersion"),
    "cutensor": (returned, "cutensorGetVersion"),
}
told = {}
for component in components:
    if component in ASKED:
        how, *what = ASKED[component]
        told[component] = list(how(component, *what))
    elif component != "cccl":
        told[component] = [0, len(cuda.path(component))]
with open("/proc/self/maps") as maps:
    mapped = sorted({line.split()[-1] for line in maps if ".so" in line})
print(json.dumps([told, mapped, cuda.paths]))
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, pip: Path) -> Iterator[Real]:
    """Yield a function that runs a program of an environment with pip, and one store for all."""
    folder = tmp_path_factory.mktemp("real")
    environ = {**plain_environ(), "PYTHONPATH": str(RUNTIME_SOURCE)}
    environ["WHEELFIT_LIBRARY_STORE"] = str(folder / "store")
    environ["WHEELFIT_LIBRARY_TRANSPORT"] = "pip"

    def run(code: str, asked: str, extra: Mapping[str, str] | None = None) -> Any:
        given, python = {**environ, **(extra or {})}, pip.parent / "python"
        told = printed_by("-c", code, asked, python=python, environ=given, deadline=3600)
        return json.loads(told)

    yield run
    shutil.rmtree(folder)  # with all there is of CUDA it has 15 GB


@pytest.mark.parametrize(("asked", "version"), [("12.9", 12090), ("13", None)])
def test_cudart_without_a_driver(real: Real, asked: str, version: int | None) -> None:
    """The runtime library of each major version loads, and says its version and that no driver is.

    On a machine with a driver it counts the GPUs, and this cannot be seen.
    """
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("there is an NVIDIA driver here")
    told = real(CUDART, asked)
    code, number = told["runtime"]
    assert code == 0
    assert number == version or (version is None and number // 1000 == 13)
    assert number // 10 % 100 == int(told["version"].split(".")[1])
    assert told["driver"] == [0, 0]
    assert told["count"][0] == 35  # the driver is not sufficient: there is none
    assert "/tree/nvidia/" in told["path"]


def test_cudart_without_an_installer(tmp_path: Path) -> None:
    """The standard library alone has the real wheel from where nobody named an index, over TLS."""
    try:
        found = prepare(
            *("cuda", "12.9", ["cudart"]),
            store=tmp_path,
            transport="http",
            driver=Driver(None),
        )
    except Unreachable as error:
        pytest.skip(f"the public index cannot be reached from here: {error}")
    (library,) = found.libraries
    assert (library.soname, library.path.rpartition("/")[0]) == (
        "libcudart.so.12",
        "nvidia/cuda_runtime/lib",
    )
    assert list(tmp_path.rglob("License.txt"))


@pytest.mark.parametrize("asked", ["12.9", "13.0"])
@pytest.mark.parametrize("driver", ["11.4", "11.8", "12.0", "12.6", "12.9", "13.0", "13.5", "14.0"])
def test_cudart_and_drivers(
    real: Real, with_driver: Callable[..., dict[str, str]], driver: str, asked: str
) -> None:
    """P-92: a driver is refused here exactly where NVIDIA's own runtime refuses it."""
    path = real(PREPARED, asked)
    extra = with_driver(driver, devices=["9.0 NVIDIA H100"])
    ours, theirs = real(COMPARED.replace("PATH", path), asked, extra)
    assert (ours == "driver-too-old") is (theirs == 35)
    assert ours in ("", "driver-too-old")


@pytest.mark.parametrize("asked", ["12", "13"])
@pytest.mark.cuda_real
def test_nvrtc_compiles(real: Real, asked: str) -> None:
    """NVIDIA's compiler makes PTX and machine code, without a driver."""
    version, ptx, cubin = real(NVRTC, asked)
    assert version.split(".")[0] == asked
    assert ".target sm_90" in ptx
    assert ".entry twice" in ptx
    assert cubin.startswith("\x7fELF")


SOME = "cudart nvrtc nvjitlink nvvm nvfatbin curand nvjpeg nvtx cupti cufile cccl"
MANY = "cublas cufft cusparse cusolver npp cudnn nccl cutensor cusparselt cudss nvshmem"
OLD = "cudart nvrtc nvvm curand nvjpeg nvtx cupti cccl"
OLD_MANY = "cublas cufft cusparse cusolver npp cudnn nccl cutensor"
VERSIONS = {
    "11.8.0": {"nvrtc": [0, 11, 8], "curand": [0, 10300], "cublas": [0, [11, 11, 3]]},
    "12.9.2": {"cudart": [0, 12090], "nvrtc": [0, 12, 9], "nvjitlink": [0, 12, 9]}
    | {"nvfatbin": [0, 12, 9], "curand": [0, 10310], "nvjpeg": [0, [12, 4, 0]]}
    | {"cublas": [0, [12, 9, 2]], "cufft": [0, 11401], "cusolver": [0, 11705]}
    | {"cusparse": [0, [12, 5, 10]], "nvvm": [0, 2, 0]},
    "13.5.0": {"cudart": [0, 13050], "nvrtc": [0, 13, 5], "nvjitlink": [0, 13, 5]}
    | {"nvfatbin": [0, 13, 5], "curand": [0, 10405], "nvjpeg": [0, [13, 3, 2]]}
    | {"cublas": [0, [13, 10, 0]], "cufft": [0, 12500], "cusolver": [0, 12401]}
    | {"cusparse": [0, [12, 9, 4]], "nvvm": [0, 2, 0]},
}
"""What libraries of one version of the toolkit say, which never changes."""


@pytest.mark.parametrize(
    ("asked", "components"),
    [
        pytest.param("12.9.2", SOME, marks=pytest.mark.cuda_real),
        pytest.param("13.5.0", SOME, marks=pytest.mark.cuda_real),
        pytest.param("11.8.0", f"{OLD} {OLD_MANY}", marks=pytest.mark.cuda_long),
        pytest.param("12.9.2", MANY, marks=pytest.mark.cuda_long),
        pytest.param("13.5.0", MANY, marks=pytest.mark.cuda_long),
    ],
)
def test_components(real: Real, asked: str, components: str) -> None:
    """Each component loads without a driver, says its version, and nothing is of the system."""
    told, mapped, paths = real(COMPONENTS, f"{asked} {components}")
    if asked == "11.8.0":
        assert told.pop("cudart") == [35, 0]  # it says no version where no driver is
    assert {name: code for name, (code, *_) in told.items() if code} == {}
    versions = VERSIONS[asked]
    assert {one: told[one] for one in told if one in versions} == {
        version: versions[version] for version in versions if version in told
    }
    assert foreign(mapped, paths) == []


@pytest.mark.parametrize(
    ("asked", "component"),
    [
        pytest.param("13.5.0", "curand", marks=pytest.mark.cuda_real),
        pytest.param("13.5.0", "cupti", marks=pytest.mark.cuda_real),
        *(pytest.param("12.9.2", one, marks=pytest.mark.cuda_long) for one in MANY.split()),
        *(pytest.param("13.5.0", one, marks=pytest.mark.cuda_long) for one in MANY.split()),
    ],
)
def test_needs_nothing_else(real: Real, asked: str, component: str) -> None:
    """What one component needs of CUDA comes with it, none from the system, whoever asks alone."""
    _, mapped, paths = real(COMPONENTS, f"{asked} {component}")
    assert foreign(mapped, paths) == []


@pytest.mark.parametrize("asked", ["12.9.2", "13.5.0"])
@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
@pytest.mark.cuda_real
def test_wheels_for_other_machines(architecture: str, asked: str) -> None:
    """The index has a wheel of every component for each kind of machine that is promised."""
    family = family_named("cuda")
    major = asked.partition(".")[0]
    machine = Machine("Linux", architecture, (2, 28))
    check_machine(family, machine)
    parts = [part for part in family.components.values() if part.project(major)]
    extras = tuple(part.extra_of(major) for part in parts if part.extra_of(major))
    wanted = [Requirement(family.metapackage, extras, f"=={asked}.*")] + [
        Requirement(part.project(major) or "", (), part.specifier)
        for part in parts
        if part.specifier
    ]
    try:
        wheels = HttpTransport(usual_index({}), {}).resolve(wanted, machine, Progress(None))
    except Unreachable as error:
        pytest.skip(f"the public index cannot be reached from here: {error}")
    projects = {part.project(major) for part in parts}
    assert {wheel.project for wheel in wheels} >= projects
    platforms = {
        wheel.filename.rpartition("-")[2] for wheel in wheels if wheel.project != family.metapackage
    }
    assert all(f"_{architecture}" in one or one == "any.whl" for one in platforms)


@pytest.mark.cuda_real
def test_mkl_computes(real: Real) -> None:
    """Intel's MKL comes with OpenMP, finds the part for this processor, and multiplies."""
    code = """
import ctypes, json, sys
from wheelfit_runtime import initialize
mkl = initialize("oneapi", sys.argv[1]).handle("mkl")
words = ctypes.create_string_buffer(200)
mkl.MKL_Get_Version_String(words, 200)
D = ctypes.c_double
given, made = (D * 4)(1, 2, 3, 4), (D * 4)()
mkl.cblas_dgemm(101, 111, 111, 2, 2, 2, D(1), given, 2, given, 2, D(0), made, 2)
print(json.dumps([words.value.decode(), list(made)]))
"""
    words, numbers = real(code, "2026")
    assert "Version 2026." in words
    assert numbers == [7, 10, 15, 22]


@pytest.mark.cuda_long
def test_sycl_loads(real: Real) -> None:
    """Intel's SYCL comes with what it needs, though texts lie among its libraries."""
    code = """
import json, sys
from wheelfit_runtime import initialize
sycl = initialize("oneapi", sys.argv[1], ["sycl"])
print(json.dumps([list(sycl.paths), sycl.handle("ur").urLoaderInit(0, None)]))
"""
    names, code_of_ur = real(code, "2026")
    assert names[-1].startswith("libsycl.so.")
    assert {"libintlc.so.5", "libimf.so", "libsvml.so", "libhwloc.so.15"} <= set(names)
    assert code_of_ur == 0


@pytest.mark.cuda_real
def test_another_family(real: Real) -> None:
    """Intel's oneTBB comes the same way."""
    code = """
import json, sys
from wheelfit_runtime import initialize
tbb = initialize("onetbb", sys.argv[1], ["tbb", "tcm"])
print(json.dumps([list(tbb.paths), tbb.handle("tbb").TBB_runtime_interface_version()]))
"""
    names, version = real(code, "2023")
    assert names[0] == "libtbb.so.12"
    assert version // 1000 == 12
