"""The guide for projects as they are is followed: their files, their commands, what these print."""

from __future__ import annotations

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

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs/how-to/build-projects-as-they-are.md"
GUIDE = sections(PAGE.name)


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
        completed = subprocess.run(run, cwd=place, capture_output=True, text=True, check=True)
        assert int(completed.stdout) == sum(i * i for i in range(64)) + 42


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both distributions of this checkout, which other front ends install for a build."""
    folder = tmp_path_factory.mktemp("release")
    for source in (REPOSITORY, REPOSITORY / "runtime"):
        words = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)]
        subprocess.run(words, check=True, capture_output=True)
    return folder


def test_other_front_ends(
    folder: Path, cache: Path, release: Path, uv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-16: in their isolated environments ``build`` and ``uv`` build variants and plain wheels."""
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(release))
    monkeypatch.setenv("UV_PYTHON", sys.executable)
    scripts = Path(sys.executable).parent
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (scripts, uv.parent, os.environ["PATH"]))))
    section = GUIDE["With `python -m build` and `uv build`"]
    source = {"oldsum.c": GUIDE["With a `setup.py` alone"].files["oldsum.c"]}
    follow(Section({**source, **section.files}, section.commands), folder, cache)
    (variant,) = (folder / "built").glob("*.whl")
    assert variant.name in {path.name for path in (folder / "dist").iterdir()}


def test_cibuildwheel(folder: Path, wheelfit: Callable[..., str], tmp_path: Path) -> None:
    """The options are what cibuildwheel reads, and its repair step leaves one wheel of a label."""
    needs_auditwheel()
    options = pytest.importorskip("cibuildwheel.options")
    helpers = pytest.importorskip("cibuildwheel.util.helpers")
    first = GUIDE["With a `setup.py` alone"].files
    for name, text in first.items():
        (folder / name).write_text(text)
    wheelfit("init", folder, "--variant", "v3=x86_64 :: level :: v3")
    wheelfit("build", folder, "--variant", "v3", "--flags", "-o", tmp_path / "built")
    (config,) = re.findall(r"```toml\n(\[tool.cibuildwheel\].*?)```", PAGE.read_text(), re.DOTALL)
    with (folder / "pyproject.toml").open("a") as file:
        file.write(config)
    arguments = options.CommandLineArguments.defaults()
    arguments.package_dir = folder
    arguments.only = f"cp3{sys.version_info.minor}-manylinux_x86_64"
    asked = options.compute_options("linux", arguments, env={}).build_options(arguments.only)
    assert asked.config_settings == "variant-label=v3"
    (wheel,) = (tmp_path / "built").iterdir()
    made = tmp_path / "made"
    made.mkdir()
    command = helpers.prepare_command(asked.repair_command, wheel=wheel, dest_dir=made)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(["sh", "-c", command], env={**os.environ, "PATH": path}, check=True)
    (variant,) = made.iterdir()
    assert "manylinux" in variant.name
    assert variant.stem.endswith("-v3")
    wheelfit("wheel", "check", made)


@pytest.mark.parametrize("section", ["With the flags of a distribution", "The same bytes on two"])
def test_packagers(section: str, folder: Path, cache: Path) -> None:
    """B-26, B-39: flags of a distribution stay, and two builds with an epoch are the same bytes."""
    (heading,) = [one for one in GUIDE if one.startswith(section)]
    if shutil.which("dpkg-buildflags") is None and "distribution" in section:
        pytest.skip("needs dpkg-buildflags")
    first = GUIDE["With a `setup.py` alone"]
    follow(Section(first.files, first.commands[:1]), folder, cache)
    follow(GUIDE[heading], folder, cache)
    if "distribution" in section:
        flags = producer(folder / "deb")
        assert "-fstack-protector-strong" in flags
        assert re.findall(r"-march=(\S+)", flags)[-1] == "x86-64-v3"


def producer(folder: Path) -> str:
    """Return what GCC says it was told for the library of the one wheel in a folder."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    (library,) = (folder / "unpacked").rglob("*.so")
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    words = ["readelf", "--debug-dump=info", str(library)]
    stdout = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return next(line for line in stdout.splitlines() if "DW_AT_producer" in line)
