"""``wheelfit build`` compares the code of variants with that of the plain wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from projects.writing import write_project

from wheelfit.wheels.binaries.optimisation import Optimisation, read_optimisation

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not (sys.platform == "linux" and os.uname().machine == "x86_64"),
        reason="is for Linux on x86-64",
    ),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
]

TABLE = """
[variant.default-priorities]
namespace = ["x86_64"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
[variant.variants.v3]
x86_64.level = ["v3"]
"""
SETTINGS = "[tool.wheelfit.build.variants.v3]\n"
BACKEND = '''
"""Compiles as setuptools does: CFLAGS replace the flags of the interpreter, LDFLAGS are added."""
import shlex, subprocess

class Binary(bytes):
    def encode(self):
        return bytes(self)

def flags():
    return os.environ.get("CFLAGS", "-O3 -DNDEBUG -g")

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.path.join(HERE, "count"), "a") as file:
        file.write("x")
    if os.path.exists(os.path.join(HERE, "broken")) and "CFLAGS" not in os.environ:
        raise SystemExit("the compiler has a bug")
    library = os.path.join(folder, "fast.so")
    words = shlex.split(flags()) + shlex.split(os.environ.get("LDFLAGS", ""))
    source = os.path.join(HERE, "fast.c")
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library, *words], check=True)
    with open(library, "rb") as file:
        files = {"demo/fast.so": Binary(file.read()), **records()}
    os.unlink(library)
    files[INFO + "/WHEEL"] = files[INFO + "/WHEEL"].replace("none-any", "none-linux_x86_64")
    return write(folder, STEM + "-py3-none-linux_x86_64.whl", files)

def build_sdist(folder, config_settings=None):
    import tarfile
    with tarfile.open(os.path.join(folder, STEM + ".tar.gz"), "w:gz") as archive:
        for one in ("about.json", "fast.c", "own_backend.py", "pyproject.toml", "broken"):
            if os.path.exists(os.path.join(HERE, one)):
                archive.add(os.path.join(HERE, one), STEM + "/" + one)
        with open(os.path.join(folder, "PKG-INFO"), "w") as file:
            file.write(metadata())
        archive.add(file.name, STEM + "/PKG-INFO")
    os.unlink(file.name)
    return STEM + ".tar.gz"
'''
DEAF = """
def flags():
    return "-O2 -DNDEBUG"
"""
"""As a Makefile that names its flags itself."""
SOURCE = """
#include <assert.h>
void scaled(int *restrict out, const int *restrict in, int factor, long count)
{
    assert(factor != 7);
    for (long i = 0; i < count; i++)
        out[i] += in[i] * factor;
}
int doubled(const int *in) { int out[64] = {0}; scaled(out, in, 2, 64); return out[3]; }
"""


class Yard:
    """Build one project."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.dist = folder / "dist"
        self.folder = folder

    def project(self, settings: str = "", backend: str = "") -> Path:
        """Write a project that has something to compile."""
        project = write_project(self.folder / "demo", "demo", backend=BACKEND + backend)
        (project / "fast.c").write_text(SOURCE)
        with (project / "pyproject.toml").open("a") as file:
            file.write(TABLE + settings)
        return project

    def build(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Build without an environment for it."""
        fixed = ("--no-index", "--no-isolation", "-o", self.dist)
        return self._run("build", self.folder / "demo", *fixed, *words, code=code)

    def labels(self) -> set[str]:
        """Return the labels of the wheels that are there; empty for the plain one."""
        names = {path.stem for path in self.dist.glob("*.whl")}
        return {name.removeprefix("demo-1.0-py3-none-linux_x86_64").lstrip("-") for name in names}

    def code(self, label: str = "") -> Optimisation:
        """Return how the library of a wheel was compiled."""
        (path,) = self.dist.glob(f"*linux_x86_64{'-' if label else ''}{label}.whl")
        with zipfile.ZipFile(path) as archive, archive.open("demo/fast.so") as file:
            optimisation = read_optimisation(file, "fast.so")  # type: ignore[arg-type]
        assert optimisation is not None
        return optimisation

    def count(self) -> int:
        """Return how often it was built where it lies."""
        return len((self.folder / "demo" / "count").read_text())


@pytest.fixture
def yard(run: Runner, tmp_path: Path) -> Yard:
    """Give a place to build in."""
    return Yard(run, tmp_path)


def test_what_a_variant_adds(yard: Yard) -> None:
    """Flags of the plain build stay, though the variable would replace them."""
    yard.project()
    yard.build("--all", "--flags")
    assert yard.labels() == {"", "v3"}
    assert yard.code("v3").levels == {"fast.c": "3"}
    assert not yard.code("v3").has_assertions
    assert yard.code("v3").code != yard.code().code


def test_flags_of_a_packager(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set already stays in front of ours; what contradicts a wheel is said of that."""
    yard.project()
    monkeypatch.setenv("CFLAGS", "-O3 -DNDEBUG -g -march=x86-64-v2 -mno-bmi2")
    report = yard.build("--all", "--flags", "--json").object
    plain, variant = report["wheels"]
    stands = "CFLAGS has -march=x86-64-v2: the wheel claims no level, and is compiled for v2"
    assert plain["notes"] == [stands]
    taken = "CFLAGS has -mno-bmi2: the wheel claims v3, and is compiled without that"
    assert variant["notes"] == [taken]
    assert f"{variant['filename']}: {taken}" in report["warnings"]


def test_a_build_that_is_the_same_everywhere(
    yard: Yard, run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """B-39: with an epoch neither the folder of a project nor the umask is in its wheels."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    yard.project()
    yard.build("--all", "--flags")
    first = {path.name: path.read_bytes() for path in yard.dist.glob("*.whl")}
    mask = os.umask(0o077)
    try:
        other = Yard(run, tmp_path / "a longer name, with blanks")
        other.folder.mkdir()
        other.project()
        other.build("--all", "--flags")
    finally:
        os.umask(mask)
    assert len(first) == 2
    assert {path.name: path.read_bytes() for path in other.dist.glob("*.whl")} == first


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("-DNDEBUG -g -O1", "fast.c is compiled with -O1, in the plain wheel with -O3"),
        ("-DNDEBUG -g", "fast.c is compiled with -O0, in the plain wheel with -O3"),
        ("-DNDEBUG", "its code is not optimised"),
        ("-O3", "it has assertions, in the plain wheel they are off"),
    ],
)
def test_a_loss_is_an_error(flags: str, told: str, yard: Yard) -> None:
    """A variant whose variables replace those of the plain build is refused, and nothing is there.

    A plain wheel is built for that where none was asked for.
    """
    yard.project(f'{SETTINGS}environment = {{ CFLAGS = "{flags}" }}\n')
    result = yard.build("--variant", "v3", "--flags", code=1)
    assert "[lost-optimisation]" in result.err
    assert "variant v3 has lost optimisation" in result.err
    assert told in " ".join(result.err.split())
    assert yard.labels() == set()
    assert yard.count() == 2


@pytest.mark.parametrize("flags", ["-O1", "-UNDEBUG"])
def test_a_loss_that_is_meant(flags: str, yard: Yard) -> None:
    """What the project names among the flags is what it wants."""
    yard.project(f'{SETTINGS}flags = ["-g", "{flags}"]\n')
    yard.build("--all", "--flags")
    assert yard.labels() == {"", "v3"}
    code = yard.code("v3")
    assert (code.levels, code.has_assertions) == (
        ({"fast.c": "1"}, False) if flags == "-O1" else ({"fast.c": "3"}, True)
    )


def test_one_variant_alone(yard: Yard) -> None:
    """The plain wheel that it is compared with is not delivered."""
    yard.project()
    result = yard.build("--variant", "v3", "--flags")
    assert "a plain wheel is built to compare the variants with" in result.err
    assert (yard.labels(), yard.count()) == ({"v3"}, 2)


def test_without_flags_nothing_is_compared(yard: Yard) -> None:
    """A variant that is a copy of the plain build needs no second one."""
    yard.project()
    yard.build("--variant", "v3")
    assert (yard.labels(), yard.count()) == ({"v3"}, 1)


def test_flags_that_nobody_heard(yard: Yard) -> None:
    """Code that is the same is told, though the linker has written the level into the library."""
    yard.project(backend=DEAF)
    result = yard.build("--all", "--flags")
    assert "-march=x86-64-v3 made no difference" in " ".join(result.err.split())


def test_a_plain_build_that_fails(yard: Yard) -> None:
    """Where there cannot be a plain wheel nothing can be compared, and that is said."""
    project = yard.project(f'{SETTINGS}environment = {{ CFLAGS = "-O1" }}\n')
    (project / "broken").touch()
    result = yard.build("--variant", "v3", "--flags")
    assert "is not compared with a plain wheel" in result.err
    assert yard.labels() == {"v3"}


def test_a_plain_build_that_fails_is_not_tried_again(yard: Yard) -> None:
    """One failure is enough for all variants, each of which is told not to be compared."""
    table = '[variant.variants.v2]\nx86_64.level = ["v2"]\n'
    settings = "".join(
        f'[tool.wheelfit.build.variants.{label}]\nenvironment = {{ CFLAGS = "-{level}" }}\n'
        for label, level in (("v2", "O1"), ("v3", "O2"))
    )
    (yard.project(table + settings) / "broken").touch()
    result = yard.build("--variant", "v2", "--variant", "v3", "--flags")
    assert result.err.count("is not compared with a plain wheel") == 2
    assert (yard.labels(), yard.count()) == ({"v2", "v3"}, 3)


MATRIX = f"""
[tool.wheelfit.matrix]
pythons = ["{sys.version_info.major}.{sys.version_info.minor}"]
platforms = ["any"]
"""


@pytest.mark.parametrize("plain", [[], ["--no-plain"]])
def test_jobs_of_a_matrix(plain: list[str], yard: Yard) -> None:
    """A job whose variant lost something has failed; its wheel is gone, and is built next time."""
    project = yard.project(MATRIX)
    there = {"v3"} if plain else {"", "v3"}
    words = ("--all", "--flags", "--json", *plain)
    good = (project / "pyproject.toml").read_text()
    bad = f'{good}{SETTINGS}environment = {{ CFLAGS = "-DNDEBUG" }}\n'
    (project / "pyproject.toml").write_text(bad)
    result = yard.build(*words, code=9)
    jobs = {job["label"]: job for job in result.object["jobs"]}
    assert jobs["v3"]["status"] == "failed"
    assert jobs["v3"]["error"]["code"] == "lost-optimisation"
    assert yard.labels() == there - {"v3"}
    assert yard.build(*words, code=9).object["jobs"][-1]["status"] == "failed"
    (project / "pyproject.toml").write_text(good)
    yard.build(*words)
    assert yard.labels() == there
    again = Counter(job["status"] for job in yard.build(*words).object["jobs"])
    assert again == {"kept": len(there)}


def test_a_job_is_built_when_its_variant_is_good(yard: Yard) -> None:
    """The plain wheel is built as soon as it is there, a variant once it was compared."""
    project = yard.project(MATRIX)
    good = (project / "pyproject.toml").read_text()
    bad = f'{good}{SETTINGS}environment = {{ CFLAGS = "-DNDEBUG" }}\n'
    (project / "pyproject.toml").write_text(bad)
    stderr = yard.build("--all", "--flags", code=9).err
    assert "built plain for" in stderr
    assert "failed v3 for" in stderr
    assert "built v3 for" not in stderr
    (project / "pyproject.toml").write_text(good)
    assert "built v3 for" in yard.build("--all", "--flags").err
    assert "kept v3 for" in yard.build("--all", "--flags").err


@pytest.mark.parametrize("library", ["elftools", "iced_x86"])
def test_without_what_compares(library: str, yard: Yard) -> None:
    """Whoever lacks the extra is told before anything is built, and not behind an hour of it."""
    project = yard.project()
    words = ["build", str(project), "--variant", "v3", "--flags", "--no-isolation", "--no-index"]
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"from wheelfit.cli.main import main; sys.exit(main({words!r}))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=yard.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 1
    assert "needs-extra" in completed.stderr
    assert not (project / "count").exists()
