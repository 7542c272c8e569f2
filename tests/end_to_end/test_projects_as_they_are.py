"""The guide for projects as they are is followed: their files, their commands, what these print."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from end_to_end.guides import Section, follow, sections

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
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

GUIDE = sections("build-projects-as-they-are.md")


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


@pytest.mark.parametrize(
    "section",
    [
        "With a `setup.py` alone",
        "Several projects in one repository",
        "Several extension modules",
    ],
)
def test_guide(section: str, folder: Path, cache: Path) -> None:
    """B-17: ordinary projects become variants with the commands of the page and no others."""
    if "repository" in section and shutil.which("git") is None:
        pytest.skip("needs git")
    follow(GUIDE[section], folder, cache)


REPAIRED = "With auditwheel, delocate or delvewheel"
COMMAND = "auditwheel repair --disable-isa-ext-check -w {dest_dir} {wheel}"


def needs_auditwheel() -> None:
    """Skip a test where the tool, or what it needs, is not installed."""
    for program in ("auditwheel", "patchelf"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


def test_repair_guide(folder: Path, cache: Path) -> None:
    """F-10: the commands of the page have auditwheel repair a project's wheels."""
    needs_auditwheel()
    first = GUIDE["With a `setup.py` alone"]
    started = Section(first.files, first.commands[:1])
    follow(started, folder, cache)
    follow(GUIDE[REPAIRED], folder, cache)


def test_libraries_that_auditwheel_puts_in(
    folder: Path, wheelfit: Callable[..., str], tmp_path: Path
) -> None:
    """A variant whose library another one was put beside is complete, and runs."""
    needs_auditwheel()
    compiled = tmp_path / "libhelp.so"
    source = "int help_me(void) { return 42; }"
    link = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(compiled)]
    subprocess.run([*link, "-Wl,-soname,libhelp.so"], input=source.encode(), check=True)
    files = GUIDE["With a `setup.py` alone"].files
    (folder / "oldsum.c").write_text(
        files["oldsum.c"]
        .replace("static PyObject", "int help_me(void);\nstatic PyObject", 1)
        .replace("FromLong(result)", "FromLong(result + help_me())")
    )
    (folder / "setup.py").write_text(
        files["setup.py"].replace('["oldsum.c"]', '["oldsum.c"], libraries=["help"]')
    )
    wheelfit("init", folder, "--variant", "v3=x86_64 :: level :: v3")
    environ = {"LIBRARY_PATH": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path)}
    out = tmp_path / "dist"
    words = ("--all", "--flags", "-o", out, "--repair", COMMAND)
    wheelfit("build", folder, *words, environ=environ)
    wheelfit("wheel", "check", out)
    wheels = sorted(out.glob("*.whl"))
    assert [path.stem.endswith("-v3") for path in wheels] == [True, False]
    for path in wheels:
        place = tmp_path / path.stem
        with zipfile.ZipFile(path) as archive:
            archive.extractall(place)
        assert list(place.glob("oldsum.libs/libhelp-*.so"))
        if path.stem.endswith("-v3") and "avx2" not in Path("/proc/cpuinfo").read_text():
            continue
        code = "import oldsum; print(oldsum.total(1))"
        run = [sys.executable, "-c", code]
        done = subprocess.run(run, cwd=place, capture_output=True, text=True, check=True)
        assert int(done.stdout) == sum(i * i for i in range(64)) + 42
