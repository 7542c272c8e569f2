"""NVIDIA's and Intel's own libraries, from the registry, through the user's pip."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import wheelfit
from wheelfit.errors import Unreachable
from wheelfit.runtime.driver import Driver
from wheelfit.runtime.libraries.bringing import prepare
from wheelfit.testing.drivers import FakeDriver

pytestmark = [
    pytest.mark.usefixtures("registry"),
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="needs x86-64 Linux"
    ),
]

Real = Callable[..., Any]

CUDART = """
import ctypes, json, sys
from wheelfit.runtime import initialize_cuda
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
from wheelfit.runtime.driver import Driver
from wheelfit.runtime.libraries.bringing import prepare
from wheelfit.runtime.libraries.settings import store_folder
import os
chosen = prepare("cuda", sys.argv[1], ["cudart"], driver=Driver(None)).libraries[0]
print(json.dumps(f"{store_folder(os.environ)}/store/{chosen.sha256}/tree/{chosen.path}"))
"""

COMPARED = """
import ctypes, json, sys
from wheelfit.errors import WheelfitError
from wheelfit.runtime import initialize_cuda
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
from wheelfit.runtime import initialize_cuda
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


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, pip: Path) -> Real:
    """Give a function that runs a program of an environment with pip, and one store for all."""
    folder = tmp_path_factory.mktemp("real")
    source = str(Path(wheelfit.__file__).parents[1])
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WHEELFIT_")}
    environ = {**kept, "PYTHONPATH": source, "WHEELFIT_LIBRARY_STORE": str(folder / "store")}
    environ["WHEELFIT_LIBRARY_TRANSPORT"] = "pip"

    def run(code: str, asked: str, extra: Mapping[str, str] | None = None) -> Any:
        done = subprocess.run(
            [str(pip.parent / "python"), "-c", code, asked],
            env={**environ, **(extra or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


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
def test_cudart_and_drivers(real: Real, fake_driver: FakeDriver, driver: str, asked: str) -> None:
    """P-92: a driver is refused here exactly where NVIDIA's own runtime refuses it."""
    path = real(PREPARED, asked)
    extra = {
        "LD_LIBRARY_PATH": str(fake_driver.folder),
        **fake_driver.environ(cuda=driver, devices=["9.0 NVIDIA H100"]),
    }
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


@pytest.mark.cuda_real
def test_another_family(real: Real) -> None:
    """Intel's oneTBB comes the same way."""
    code = """
import json, sys
from wheelfit.runtime import initialize
tbb = initialize("onetbb", sys.argv[1], ["tbb", "tcm"])
print(json.dumps([list(tbb.paths), tbb.handle("tbb").TBB_runtime_interface_version()]))
"""
    names, version = real(code, "2023")
    assert names[0] == "libtbb.so.12"
    assert version // 1000 == 12
