"""The examples are built and run as their readers would do it."""

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

import wheelfit
from wheelfit.platforms.surroundings import architecture_of_this_process
from wheelfit.testing.drivers import find_compiler

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(wheelfit.__file__).parents[1]
BUILDS = ("generic", "avx2", "avx512")

_ASK = """
import array, json, sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import sums
row = array.array("f", range(1000))
print(json.dumps({
    "built for": sums.BUILT_FOR, "sum": sums.dot(row, row),
    "warnings": [str(one.message) for one in caught],
    "modules": sorted(name for name in sys.modules if name.startswith("sums_")),
}))
"""

pytestmark = [
    pytest.mark.network,  # for the build backend
    pytest.mark.skipif(sys.platform != "linux", reason="the examples are for Linux"),
    pytest.mark.skipif(architecture_of_this_process() != "x86_64", reason="they are for x86-64"),
    pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler (cc, gcc or clang)"),
]


def _clean() -> dict[str, str]:
    own = ("WHEELFIT_", "SUMS_", "CFLAGS")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


@pytest.fixture(scope="module")
def backend(environment_with: Callable[..., Path]) -> Path:
    """Give a Python that has the build backend, and pip."""
    return environment_with("setuptools==80.9.0", "wheel==0.45.1")


@pytest.fixture(scope="module")
def wheels(backend: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package and its implementations, built one after the other."""
    folder = tmp_path_factory.mktemp("loader")
    source = shutil.copytree(EXAMPLES / "loader-c-extension", folder / "source")
    command = [
        str(backend),
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    for project, build in (("sums", ""), *(("implementations", build) for build in BUILDS)):
        subprocess.run(
            [*command, f"--wheel-dir={folder}/wheels", str(source / project)],
            env={**_clean(), "SUMS_BUILD": build},
            check=True,
            capture_output=True,
        )
    return folder / "wheels"


@pytest.fixture(scope="module")
def install(
    wheels: Path, backend: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Give a function that has pip install the package and some implementations."""

    def folder_with(*builds: str) -> Path:
        place = tmp_path_factory.mktemp("site")
        command = [str(backend), "-m", "pip", "install", "--no-deps", "--no-index"]
        names = ["sums", *(f"sums-{build}" for build in builds)]
        subprocess.run(
            [*command, f"--target={place}", f"--find-links={wheels}", *names],
            check=True,
            capture_output=True,
        )
        return place

    return folder_with


@pytest.fixture(scope="module")
def everything(install: Callable[..., Path]) -> Path:
    """Return a folder in which all implementations are installed side by side."""
    return install(*BUILDS)


def _run(place: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(place), str(SOURCE)])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**_clean(), "PYTHONPATH": path, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def _ask(place: Path, **environ: str) -> dict[str, Any]:
    done = _run(place, "-c", _ASK, **environ)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_flags_matter(wheels: Path, tmp_path: Path) -> None:
    """Each implementation has the vectors its flags allow, and none more."""
    if shutil.which("objdump") is None:
        pytest.skip("needs objdump")
    widest = {}
    for wheel in wheels.glob("sums_*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".so"))
            library = archive.extract(name, tmp_path)
        code = subprocess.run(
            ["objdump", "-d", library], capture_output=True, text=True, check=True
        )
        found = [register for register in ("zmm", "ymm", "xmm") if f"%{register}" in code.stdout]
        widest[wheel.name.split("-")[0]] = found[0]
    assert widest == {"sums_generic": "xmm", "sums_avx2": "ymm", "sums_avx512": "zmm"}


def test_the_best_is_taken(everything: Path) -> None:
    """Of all that are installed the best of this very processor is imported, and nothing else."""
    answer = _ask(everything)
    told = json.loads(_run(everything, "-m", "wheelfit.runtime", "explain", "--json").stdout)
    level = told["machine"]["x86_64"]["supported"]["level"][0]
    best = {"v4": "AVX-512", "v3": "AVX2"}.get(level, "any processor")
    assert answer["built for"] == best
    assert answer["sum"] == pytest.approx(332833500, rel=1e-5)
    assert len(answer["modules"]) == 2  # the package and its extension


def test_each_machine(everything: Path) -> None:
    """One installation serves every processor; what does not fit is told once."""
    answer = _ask(everything, WHEELFIT_OVERRIDE_X86_64_LEVEL="v2,v1")
    assert answer["built for"] == "any processor"
    assert len(answer["warnings"]) == 1
    assert "sums-avx512" in answer["warnings"][0]
    assert _ask(everything, SUMS_IMPLEMENTATION="generic")["built for"] == "any processor"


def test_nothing_fits(install: Callable[..., Path]) -> None:
    """If nothing fits, the error says why, and what to install on this machine."""
    place = install("avx512")
    done = _run(place, "-c", "import sums", WHEELFIT_OVERRIDE_X86_64_LEVEL="v3,v2,v1")
    assert done.returncode == 1
    assert "sums-avx512: needs x86_64 :: level :: v4; here it is v3" in done.stderr
    assert "pip install sums-avx2" in done.stderr


@pytest.mark.cuda_real
@pytest.mark.parametrize("major", ["12", "13"])
def test_compiled_where_it_runs(major: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The example compiles with NVIDIA's own compiler; it runs the code, or says why not."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "cuda-nvrtc" / "saxpy.py", "--cuda", major],
        env={
            **_clean(),
            "PYTHONPATH": str(SOURCE),
            "WHEELFIT_LIBRARY_STORE": str(tmp_path_factory.getbasetemp() / "libraries"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"CUDA {major}." in done.stdout
    assert re.search(r"compiled \d{4,} bytes for sm_\d+; (not run: .|run: .* 0\.0$)", done.stdout)
