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
from programs import run_program
from python_runs import RUNTIME_SOURCE, printed_by, run_python
from runtime.example_builds import BACKEND, BUILDS, EXAMPLES, clean_environment

from wheelfit.testing.drivers import find_compiler
from wheelfit_runtime.platforms.system_view import architecture_of_this_process

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


@pytest.fixture(scope="module")
def everything(install_example: Callable[..., Path]) -> Path:
    """Return a folder in which all implementations are installed side by side."""
    return install_example(*BUILDS)


def _run(place: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(place), str(RUNTIME_SOURCE)])
    return run_python(*arguments, environ={**clean_environment(), "PYTHONPATH": path, **environ})


def _ask(place: Path, **environ: str) -> dict[str, Any]:
    done = _run(place, "-c", _ASK, **environ)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_flags_matter(example_wheels: Path, tmp_path: Path) -> None:
    """Each implementation has the vectors its flags allow, and none more."""
    if shutil.which("objdump") is None:
        pytest.skip("needs objdump")
    widest = {}
    for wheel in example_wheels.glob("sums_*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".so"))
            library = archive.extract(name, tmp_path)
        code = run_program("objdump", "-d", library).stdout
        found = [register for register in ("zmm", "ymm", "xmm") if f"%{register}" in code]
        widest[wheel.name.split("-")[0]] = found[0]
    assert widest == {"sums_generic": "xmm", "sums_avx2": "ymm", "sums_avx512": "zmm"}


def test_the_best_is_taken(everything: Path) -> None:
    """Of all that are installed the best of this very processor is imported, and nothing else."""
    answer = _ask(everything)
    told = json.loads(_run(everything, "-m", "wheelfit_runtime", "explain", "--json").stdout)
    level = told["machine"]["x86_64"]["supported"]["level"][0]
    best = {"v4": "AVX-512", "v3": "AVX2"}.get(level, "any processor")
    assert answer["built for"] == best
    assert answer["sum"] == pytest.approx(332833500, rel=1e-5)
    assert len(answer["modules"]) == 2  # the package and its extension


def test_each_machine(everything: Path) -> None:
    """One installation serves every processor as intended, so nobody is warned on any."""
    answer = _ask(everything, WHEELFIT_OVERRIDE_X86_64_LEVEL="v2,v1")
    assert (answer["built for"], answer["warnings"]) == ("any processor", [])
    level = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": "v2,v1"}
    done = _run(everything, "-W", "error", "-c", "import sums; print(sums.BUILT_FOR)", **level)
    assert (done.stdout, done.stderr) == ("any processor\n", "")
    assert _ask(everything, SUMS_IMPLEMENTATION="generic")["built for"] == "any processor"


def test_nothing_fits(install_example: Callable[..., Path]) -> None:
    """If nothing fits, the error says why, and what to install on this machine."""
    place = install_example("avx512")
    done = _run(place, "-c", "import sums", WHEELFIT_OVERRIDE_X86_64_LEVEL="v3,v2,v1")
    assert done.returncode == 1
    assert "sums-avx512: needs x86_64 :: level :: v4; here it is v3" in done.stderr
    assert "pip install sums-avx2" in done.stderr


def test_installed_for_editing(environment_with: Callable[..., Path], tmp_path: Path) -> None:
    """What is installed for editing declares what was built for it, and runs no other's code."""
    source = shutil.copytree(EXAMPLES / "loader-c-extension", tmp_path / "source")
    place = tmp_path / "site"
    pip = [str(environment_with(*BACKEND)), "-m", "pip", "install", f"--target={place}"]
    for project, build in (
        ("sums", ""),
        ("implementations", "avx2"),
        ("implementations", "generic"),
    ):
        options = ("--no-deps", "--no-build-isolation", "--no-index", "-e", source / project)
        run_program(*pip, *options, env={**clean_environment(), "SUMS_BUILD": build})
    ask = f"import site; site.addsitedir({str(place)!r})\n"
    level = {"WHEELFIT_OVERRIDE_X86_64_LEVEL": "v4,v3,v2,v1"}
    explain = f"{ask}import json, wheelfit_runtime as r; print(json.dumps(r.explain('sums')))"
    (group,) = json.loads(_run(place, "-c", explain, **level).stdout)["groups"]
    assert [implementation["implementation"] for implementation in group["implementations"]] == [
        "avx2",
        "generic",
    ]
    assert group["could_install"] == ["sums-avx512"]
    for build, words in (("avx2", "AVX2"), ("generic", "any processor")):
        code = f"{ask}import sums_{build}; print(sums_{build}.BUILT_FOR)"
        assert _run(place, "-c", code).stdout == f"{words}\n"


@pytest.mark.cuda_real
@pytest.mark.parametrize("major", ["12", "13"])
def test_compiled_where_it_runs(major: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The example compiles with NVIDIA's own compiler; it runs the code, or says why not."""
    store = str(tmp_path_factory.getbasetemp() / "libraries")
    environ = {"PYTHONPATH": str(RUNTIME_SOURCE), "WHEELFIT_LIBRARY_STORE": store}
    program = EXAMPLES / "cuda-nvrtc" / "saxpy.py"
    told = printed_by(program, "--cuda", major, environ={**clean_environment(), **environ})
    assert f"CUDA {major}." in told
    assert re.search(r"compiled \d{4,} bytes for sm_\d+; (not run: .|run: .* 0\.0$)", told)
