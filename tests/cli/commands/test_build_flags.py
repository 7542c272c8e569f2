"""``wheelfit build`` compares the code of variants with that of the plain wheel."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from programs import run_program
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
FIXED_FLAGS = """
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


class Builder:
    """Builds of one project."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.dist = folder / "dist"
        self.folder = folder

    def project(self, settings: str = "", backend: str = "") -> Path:
        """Write a project with a source file to compile."""
        project = write_project(self.folder / "demo", "demo", backend=BACKEND + backend)
        (project / "fast.c").write_text(SOURCE)
        with (project / "pyproject.toml").open("a") as file:
            file.write(TABLE + settings)
        return project

    def build(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Build without isolation."""
        fixed = ("--no-index", "--no-isolation", "-o", self.dist)
        return self._run("build", self.folder / "demo", *fixed, *words, code=code)

    def labels(self) -> set[str]:
        """Return the labels of the built wheels; empty for the plain one."""
        names = {path.stem for path in self.dist.glob("*.whl")}
        return {name.removeprefix("demo-1.0-py3-none-linux_x86_64").lstrip("-") for name in names}

    def code(self, label: str = "") -> Optimisation:
        """Return the optimisation of the library in a wheel."""
        (path,) = self.dist.glob(f"*linux_x86_64{'-' if label else ''}{label}.whl")
        with zipfile.ZipFile(path) as archive, archive.open("demo/fast.so") as file:
            optimisation = read_optimisation(file, "fast.so")  # type: ignore[arg-type]
        assert optimisation is not None
        return optimisation

    def count(self) -> int:
        """Return the number of builds in the project's folder."""
        return len((self.folder / "demo" / "count").read_text())


@pytest.fixture
def builder(run: Runner, tmp_path: Path) -> Builder:
    """Return a builder in a temporary folder."""
    return Builder(run, tmp_path)


def test_flags_are_added(builder: Builder) -> None:
    """The flags of the plain build remain, though CFLAGS would replace them."""
    builder.project()
    builder.build("--all", "--flags")
    assert builder.labels() == {"", "v3"}
    assert builder.code("v3").levels == {"fast.c": "3"}
    assert not builder.code("v3").has_assertions
    assert builder.code("v3").code != builder.code().code


def test_flags_of_the_environment(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Existing CFLAGS precede ours; flags that contradict a wheel's label cause a note."""
    builder.project()
    monkeypatch.setenv("CFLAGS", "-O3 -DNDEBUG -g -march=x86-64-v2 -mno-bmi2")
    report = builder.build("--all", "--flags", "--json").object
    plain, variant = report["wheels"]
    stands = "CFLAGS has -march=x86-64-v2: the wheel claims no level, but is compiled for v2"
    assert plain["notes"] == [stands]
    taken = "CFLAGS has -mno-bmi2: the wheel claims v3, but is compiled without a feature of v3"
    assert variant["notes"] == [taken]
    assert f"{variant['filename']}: {taken}" in report["warnings"]


def test_reproducible_build(
    builder: Builder, run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """B-39: with SOURCE_DATE_EPOCH neither the folder nor the umask changes the wheels."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    builder.project()
    builder.build("--all", "--flags")
    first = {path.name: path.read_bytes() for path in builder.dist.glob("*.whl")}
    mask = os.umask(0o077)
    try:
        other = Builder(run, tmp_path / "a longer name, with blanks")
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
def test_lost_optimisation(flags: str, told: str, builder: Builder) -> None:
    """A variant that loses optimisation against the plain wheel is refused."""
    builder.project(f'{SETTINGS}environment = {{ CFLAGS = "{flags}" }}\n')
    result = builder.build("--variant", "v3", "--flags", code=1)
    assert "[lost-optimisation]" in result.err
    assert "variant v3 has lost optimisation" in result.err
    assert told in " ".join(result.err.split())
    assert builder.labels() == set()
    assert builder.count() == 2


@pytest.mark.parametrize("flags", ["-O1", "-UNDEBUG"])
def test_intended_loss(flags: str, builder: Builder) -> None:
    """A loss that the project's own flags cause is accepted."""
    builder.project(f'{SETTINGS}flags = ["-g", "{flags}"]\n')
    builder.build("--all", "--flags")
    assert builder.labels() == {"", "v3"}
    code = builder.code("v3")
    assert (code.levels, code.has_assertions) == (
        ({"fast.c": "1"}, False) if flags == "-O1" else ({"fast.c": "3"}, True)
    )


def test_plain_wheel_for_the_comparison_only(builder: Builder) -> None:
    """The plain wheel of the comparison is not delivered."""
    builder.project()
    result = builder.build("--variant", "v3", "--flags")
    assert "a plain wheel is built to compare the variants with" in result.err
    assert (builder.labels(), builder.count()) == ({"v3"}, 2)


def test_no_comparison_without_flags(builder: Builder) -> None:
    """Without --flags there is no comparison and no second build."""
    builder.project()
    builder.build("--variant", "v3")
    assert (builder.labels(), builder.count()) == ({"v3"}, 1)


def test_ignored_flags(builder: Builder) -> None:
    """Equal code causes a warning, though the linker marks the level in the library."""
    builder.project(backend=FIXED_FLAGS)
    result = builder.build("--all", "--flags")
    assert "-march=x86-64-v3 made no difference" in " ".join(result.err.split())


def test_failing_plain_build(builder: Builder) -> None:
    """If the plain build fails, the variant is delivered with a note that nothing was compared."""
    project = builder.project(f'{SETTINGS}environment = {{ CFLAGS = "-O1" }}\n')
    (project / "broken").touch()
    result = builder.build("--variant", "v3", "--flags")
    assert "is not compared with a plain wheel" in result.err
    assert builder.labels() == {"v3"}


def test_failing_plain_build_is_not_repeated(builder: Builder) -> None:
    """A plain build that fails is not repeated for other variants."""
    table = '[variant.variants.v2]\nx86_64.level = ["v2"]\n'
    settings = "".join(
        f'[tool.wheelfit.build.variants.{label}]\nenvironment = {{ CFLAGS = "-{level}" }}\n'
        for label, level in (("v2", "O1"), ("v3", "O2"))
    )
    (builder.project(table + settings) / "broken").touch()
    result = builder.build("--variant", "v2", "--variant", "v3", "--flags")
    assert result.err.count("is not compared with a plain wheel") == 2
    assert (builder.labels(), builder.count()) == ({"v2", "v3"}, 3)


MATRIX = f"""
[tool.wheelfit.matrix]
pythons = ["{sys.version_info.major}.{sys.version_info.minor}"]
platforms = ["any"]
"""


@pytest.mark.parametrize("plain", [[], ["--no-plain"]])
def test_lost_optimisation_in_a_matrix(plain: list[str], builder: Builder) -> None:
    """A job that lost optimisation has failed; its wheel is deleted and built next time."""
    project = builder.project(MATRIX)
    there = {"v3"} if plain else {"", "v3"}
    words = ("--all", "--flags", "--json", *plain)
    good = (project / "pyproject.toml").read_text()
    bad = f'{good}{SETTINGS}environment = {{ CFLAGS = "-DNDEBUG" }}\n'
    (project / "pyproject.toml").write_text(bad)
    result = builder.build(*words, code=9)
    jobs = {job["label"]: job for job in result.object["jobs"]}
    assert jobs["v3"]["status"] == "failed"
    assert jobs["v3"]["error"]["code"] == "lost-optimisation"
    assert builder.labels() == there - {"v3"}
    assert builder.build(*words, code=9).object["jobs"][-1]["status"] == "failed"
    (project / "pyproject.toml").write_text(good)
    builder.build(*words)
    assert builder.labels() == there
    again = Counter(job["status"] for job in builder.build(*words).object["jobs"])
    assert again == {"kept": len(there)}


def test_variant_is_reported_after_the_comparison(builder: Builder) -> None:
    """A variant is reported as built only after the comparison."""
    project = builder.project(MATRIX)
    good = (project / "pyproject.toml").read_text()
    bad = f'{good}{SETTINGS}environment = {{ CFLAGS = "-DNDEBUG" }}\n'
    (project / "pyproject.toml").write_text(bad)
    stderr = builder.build("--all", "--flags", code=9).err
    assert "built plain for" in stderr
    assert "failed v3 for" in stderr
    assert "built v3 for" not in stderr
    (project / "pyproject.toml").write_text(good)
    assert "built v3 for" in builder.build("--all", "--flags").err
    assert "kept v3 for" in builder.build("--all", "--flags").err


@pytest.mark.parametrize("library", ["elftools", "iced_x86"])
def test_missing_extra(library: str, builder: Builder) -> None:
    """A missing extra is an error before the build starts."""
    project = builder.project()
    words = ["build", str(project), "--variant", "v3", "--flags", "--no-isolation", "--no-index"]
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"from wheelfit.cli.main import main; sys.exit(main({words!r}))"
    )
    completed = run_program(sys.executable, "-c", program, code=1, cwd=builder.folder)
    assert "needs-extra" in completed.stderr
    assert not (project / "count").exists()
