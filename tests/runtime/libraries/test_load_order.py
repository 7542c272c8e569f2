"""In which order libraries are loaded, and which files are none."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import build_cuda_wheels, compile_library
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.libraries.fetching import in_order
from wheelfit_runtime.libraries.store import Store, StoredWheel
from wheelfit_runtime.libraries.store_changes import keep, working_folder
from wheelfit_runtime.libraries.verifying import sha256_of, unpack
from wheelfit_runtime.libraries.wheels import ListedWheel

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def entry_of(folder: Path, files: dict[str, bytes]) -> StoredWheel:
    """Return a wheel with some files, in a store."""
    wheel = build_wheel(folder, "one", "1.0", files=files)
    store = Store(str(folder / "store"))
    sha256 = sha256_of(wheel)
    with working_folder(store) as working:
        listed = ListedWheel("one", "1.0", wheel.name, wheel.as_uri(), sha256)
        unpack(wheel, listed, Path(working, "entry"))
        return keep(store, str(Path(working, "entry")), sha256)


def test_what_the_system_adds(program: Callable[..., Any], tmp_path: Path) -> None:
    """A library that ours need, and that is no wheel's, is the system's: it is told."""
    system, wheels = tmp_path / "system", tmp_path / "wheels"
    system.mkdir()
    needed = system / "libcurand.so.10"
    needed.write_bytes(compile_library(needed.name, "int curand(void) { return 10; }"))
    build_cuda_wheels(wheels, ("13.1",), machine=platform.machine())
    (cudart,) = wheels.glob("nvidia_cuda_runtime-*")
    source = "int cudaRuntimeGetVersion(int *v) { *v = 13010; return 0; }"
    library = compile_library("libcudart.so.13", source, needed=[needed.name])
    tag = cudart.name.split("-", 2)[2].removesuffix(".whl")
    files = {"nvidia/cu13/lib/libcudart.so.13": library}
    build_wheel(wheels, "nvidia-cuda-runtime", "13.1.7", files=files, tag=tag)
    code = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    cuda = initialize_cuda("13", ["cudart"])
answer = [cuda.strangers, [str(one.message) for one in told]]
"""
    with RecordingIndex(wheels) as index:
        extra = {"WHEELFIT_LIBRARY_INDEX": index.url, "LD_LIBRARY_PATH": str(system)}
        strangers, told = program(code, extra)
    assert strangers == {needed.name: str(needed)}
    assert told == [f"CUDA 13 loads {needed}, which no wheel of the library store has"]


def test_scripts_of_linkers(tmp_path: Path) -> None:
    """A text that leads linkers to another file, as Intel's compiler libraries have, is none."""
    needed = compile_library("libintlc.so.5", "int intlc(void) { return 5; }")
    files = {
        "lib/libintlc.so": b"INPUT(libintlc.so.5)\n",
        "lib/libintlc.so.5": needed,
        "lib/libimf.so": compile_library("libimf.so", "", needed=["libintlc.so.5"]),
        "lib/libempty.so": b"",
    }
    found = in_order([entry_of(tmp_path, files)], {"compiler": ("libimf.so", "libintlc.so")})
    assert [one.path for one in found] == ["lib/libintlc.so.5", "lib/libimf.so"]
    assert {one.component for one in found} == {"compiler"}
