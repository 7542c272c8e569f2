"""The distribution `wheelfit-runtime` alone, in an environment with nothing else and no network."""

from __future__ import annotations

import json
import subprocess
import sys
import zipapp
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from python_runs import printed_by
from runtime.example_builds import BUILDS, clean_environment

from wheelfit.testing.drivers import find_compiler
from wheelfit_runtime.platforms.system_view import architecture_of_this_process

MODULES = """
import pkgutil, sys, wheelfit_runtime
from importlib import import_module
known = set(sys.stdlib_module_names)
for module in pkgutil.walk_packages(wheelfit_runtime.__path__, "wheelfit_runtime."):
    if not module.name.endswith(("__main__", "_child")) and ".hooks." not in module.name:
        import_module(module.name)
print(sorted({name.partition(".")[0] for name in sys.modules} - known - {"__main__"}))
"""
SUMS = "import array, sums; print(sums.BUILT_FOR, sums.dot(*[array.array('f', [1, 2])] * 2))"
SELECT = """
from wheelfit_runtime import select
print(select({"x86_64 :: level :: v1": "x86-64", "aarch64 :: version :: 8a": "ARM"}, default="any"))
"""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.network,  # for the build backend
]
needs_example = pytest.mark.skipif(
    sys.platform != "linux"
    or architecture_of_this_process() != "x86_64"
    or find_compiler() is None,
    reason="the example is for Linux on x86-64, and needs a C compiler (cc, gcc or clang)",
)


@pytest.fixture(scope="module")
def python(runtime_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an interpreter that has the wheel, and nothing else."""
    place = tmp_path_factory.mktemp("alone") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(place), "install", "--no-index"]
    subprocess.run([*pip, str(runtime_wheel)], check=True, capture_output=True)
    return place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def run(python: Path, *words: str | Path) -> str:
    """Run Python in a folder without anything, behind a proxy that is not there."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    environ = {**clean_environment(), **nowhere}
    return printed_by(*words, python=python, environ=environ, cwd=python.parent)


def test_it_is_small_and_needs_nothing(runtime_wheel: Path) -> None:
    """At most 1 MB is installed, and no other distribution."""
    with zipfile.ZipFile(runtime_wheel) as archive:
        assert sum(one.file_size for one in archive.infolist()) <= 1_000_000
        (name,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = archive.read(name).decode()
        assert "wheelfit_runtime/py.typed" in archive.namelist()
    assert "Requires-Dist" not in metadata


def test_every_module_is_imported(python: Path) -> None:
    """No module needs more than the standard library and this distribution."""
    assert run(python, "-c", MODULES) == "['wheelfit_runtime']\n"


def test_command(python: Path) -> None:
    """``python -m wheelfit_runtime`` answers."""
    report = json.loads(run(python, "-m", "wheelfit_runtime", "store", "list", "--json"))
    assert report["bytes"] >= 0


def test_select(python: Path) -> None:
    """A table of cases is read by what the machine supports."""
    assert run(python, "-c", SELECT).strip() in ("x86-64", "ARM", "any")


@needs_example
def test_zip_application(
    runtime_wheel: Path, tmp_path: Path, install_example: Callable[..., Path]
) -> None:
    """A zip application with it chooses among what is installed."""
    source = tmp_path / "application"
    with zipfile.ZipFile(runtime_wheel) as archive:
        archive.extractall(source)
    (source / "__main__.py").write_text(f"import sys; sys.path.append(sys.argv[1]); {SUMS}")
    application = tmp_path / "application.pyz"
    zipapp.create_archive(source, application)
    place = install_example(*BUILDS)
    assert run(Path(sys.executable), "-I", application, place).endswith(" 5.0\n")


@needs_example
def test_loader_example(python: Path, install_example: Callable[..., Path]) -> None:
    """The example's package imports the implementation that fits."""
    place = install_example(*BUILDS)
    program = f"import sys; sys.path.append({str(place)!r}); {SUMS}"
    assert run(python, "-c", program).endswith(" 5.0\n")
