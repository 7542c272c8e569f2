"""``wheelfit build --all`` with a matrix, and in several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner, tree
from dask_cluster import DaskCluster, until
from projects.writing import write_project

from wheelfit.building.jobs import is_for
from wheelfit.building.matrix import Job

pytestmark = pytest.mark.integration

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
TABLE = """
[variant.default-priorities]
namespace = ["x86_64", "blas"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
[variant.providers.blas]
static-properties.library = ["openblas", "mkl"]
[variant.variants.v3]
x86_64.level = ["v3"]
[variant.variants.mkl]
blas.library = ["mkl"]
[tool.wheelfit.build.variants.v3]
environment.LEVEL = "3"
"""
MATRIX = """
[tool.wheelfit.matrix]
pythons = ["{python}"]
platforms = ["any", "manylinux_s390x"]
exclude = [{{ label = "", platform = "manylinux_s390x" }}]
"""
BACKEND = """
def records(inner=records):
    return inner()
def build_wheel(folder, config_settings=None, metadata_directory=None):
    level = os.environ.get("LEVEL", "")
    if level and os.path.exists(os.path.join(HERE, "broken")):
        raise SystemExit("the compiler has a bug")
    name = STEM + "-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        members = {"demo.py": "LEVEL = " + repr(level) + open(os.path.join(HERE, "more")).read()}
        for member, text in {**members, **records()}.items():
            wheel.writestr(zipfile.ZipInfo(member), text)
        lines = [m + ",sha256=" + digest(wheel.read(m)) + "," + str(len(wheel.read(m)))
                 for m in wheel.namelist()]
        lines.append(INFO + "/RECORD,,")
        wheel.writestr(zipfile.ZipInfo(INFO + "/RECORD"), "\\n".join(lines) + "\\n")
    return name
def build_sdist(folder, config_settings=None):
    import tarfile
    with tarfile.open(os.path.join(folder, STEM + ".tar.gz"), "w:gz") as archive:
        for one in sorted(os.listdir(HERE)):
            if os.path.isfile(os.path.join(HERE, one)):
                archive.add(os.path.join(HERE, one), STEM + "/" + one)
        with open(os.path.join(folder, "PKG-INFO"), "w") as file:
            file.write(metadata())
        archive.add(file.name, STEM + "/PKG-INFO")
    os.unlink(file.name)
    return STEM + ".tar.gz"
def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
"""
"""Builds the same bytes at any time."""
SLOW = """
def build_wheel(folder, *rest, inner=build_wheel):
    if os.environ.get("LEVEL"):
        open({begun!r}, "w").close()
        import time
        time.sleep(60)
    return inner(folder, *rest)
"""


class Yard:
    """Build all wheels of one project."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.folder = folder
        self.dist = folder / "dist"
        self.is_isolated = False
        self.project = write_project(folder / "demo", "demo", backend=BACKEND)
        (self.project / "more").write_text("")
        self.say(TABLE + MATRIX.format(python=HERE))

    def say(self, text: str) -> None:
        """Say more in the project's file."""
        with (self.project / "pyproject.toml").open("a") as file:
            file.write(text)

    def build(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Build all, with a report for programs."""
        fixed = ("--no-index", "--json", "-o", self.dist)
        isolation = () if self.is_isolated else ("--no-isolation",)
        return self._run("build", self.project, "--all", *fixed, *isolation, *words, code=code)

    def counts(self, *words: str | Path, code: int = 0) -> dict[str, int]:
        """Build all, and return how many jobs came to what."""
        jobs: list[Any] = self.build(*words, code=code).object["jobs"]
        return dict(Counter(job["status"] for job in jobs))

    def wheels(self) -> dict[str, str]:
        """Return the wheels that are there, with the digests of their content."""
        return {name: value for name, value in tree(self.dist).items() if name.endswith(".whl")}


@pytest.fixture
def yard(run: Runner, tmp_path: Path) -> Yard:
    """Give a project with a matrix."""
    return Yard(run, tmp_path)


NAMES = {f"demo-1.0-py3-none-any{label}.whl" for label in ("", "-v3", "-mkl")}


def test_one_report(yard: Yard) -> None:
    """Each job is built, or named with the reason why not; what is built lies in the folder."""
    result = yard.build()
    assert set(yard.wheels()) == NAMES
    told = {(job["label"], job["platform"]): job for job in result.object["jobs"]}
    assert {key: one["status"] for key, one in told.items()} == {
        (None, "any"): "built",
        ("v3", "any"): "built",
        ("mkl", "any"): "built",
        ("v3", "manylinux_s390x"): "skipped",
        ("mkl", "manylinux_s390x"): "skipped",
    }
    assert told["v3", "any"]["filename"] == "demo-1.0-py3-none-any-v3.whl"
    assert {wheel["filename"] for wheel in result.object["wheels"]} == NAMES
    assert result.object["sdist"] is None
    assert result.err.splitlines()[-1] == "3 built, 2 for other platforms (manylinux_s390x)"


def test_paths_as_they_were_given(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels are named below the folder that was given, as those of a build without a matrix."""
    monkeypatch.chdir(yard.folder)
    paths = {wheel["path"] for wheel in yard.build("-o", "out").object["wheels"]}
    assert paths == {str(Path("out", name)) for name in NAMES}


def test_resume(yard: Yard) -> None:
    """What an earlier run has built is kept, unless its source, its wheel or its recipe changed."""
    assert yard.counts() == {"built": 3, "skipped": 2}
    before = yard.wheels()
    assert yard.counts() == {"kept": 3, "skipped": 2}
    (yard.dist / "demo-1.0-py3-none-any-v3.whl").unlink()
    assert yard.counts() == {"kept": 2, "built": 1, "skipped": 2}
    assert yard.wheels() == before
    assert yard.counts("--rebuild") == {"built": 3, "skipped": 2}
    (yard.project / "more").write_text("\nMORE = 1")
    assert yard.counts() == {"built": 3, "skipped": 2}
    assert yard.wheels().keys() == before.keys()
    assert yard.wheels() != before


def test_failures(yard: Yard) -> None:
    """A build that fails is named with its reason; the others are there, and not built again."""
    (yard.project / "broken").touch()
    result = yard.build(code=9)
    reasons = {job["label"]: job["error"] for job in result.object["jobs"] if job["error"]}
    assert list(reasons) == ["v3"], reasons  # all of it, for whoever reads why this test failed
    assert reasons["v3"]["code"] == "build-failed", reasons
    assert "the compiler has a bug" in str(reasons["v3"]["note"]), reasons
    assert set(yard.wheels()) == NAMES - {"demo-1.0-py3-none-any-v3.whl"}
    assert yard.counts(code=9) == {"kept": 2, "failed": 1, "skipped": 2}
    (yard.project / "broken").unlink()
    assert yard.counts() == {"built": 3, "skipped": 2}  # its source is another one now


def test_for_people(yard: Yard, run: Runner) -> None:
    """People get a line for each build, the reason of what failed, and the sum."""
    (yard.project / "broken").touch()
    result = run(
        "build", yard.project, "--all", "-o", yard.dist, "--no-index", "--no-isolation", code=9
    )
    assert "the compiler has a bug" in result.err, result
    assert f"failed v3 for Python {HERE}" in result.err
    assert ".tar.gz, which has no file of a folder above the project" in result.err
    assert (
        result.err.splitlines()[-1] == "2 built, 1 failed, 2 for other platforms (manylinux_s390x)"
    )


def test_pythons_that_are_not_here(yard: Yard) -> None:
    """A Python that is not here is the fault of its jobs, unless they are left out."""
    text = (yard.project / "pyproject.toml").read_text()
    text = text.replace(f'pythons = ["{HERE}"]', f'pythons = ["{HERE}", "3.99"]')
    (yard.project / "pyproject.toml").write_text(text)
    result = yard.build(code=9)
    failed = [job for job in result.object["jobs"] if job["status"] == "failed"]
    assert {one["python"] for one in failed} == {"3.99"}
    assert failed[0]["error"]["code"] == "unusable-interpreter"
    assert "--only-python" in failed[0]["error"]["hint"]
    assert yard.counts("--only-python", HERE) == {"kept": 3, "skipped": 2}
    assert yard.counts("--python", sys.executable) == {"kept": 3, "skipped": 2}
    assert yard.build("--only-python", "3.98", code=2).error["code"] == "usage"


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts are not run there")
def test_shims_of_pythons(yard: Yard, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command on PATH that is no Python is the fault of its jobs, told once; others are built."""
    text = (yard.project / "pyproject.toml").read_text()
    text = text.replace(f'pythons = ["{HERE}"]', f'pythons = ["{HERE}", "3.99"]')
    (yard.project / "pyproject.toml").write_text(text)
    shim = yard.folder / "shims" / "python3.99"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho not installed >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent), prepend=os.pathsep)
    jobs = yard.build(code=9).object["jobs"]
    assert {(job["python"], job["status"]) for job in jobs} == {
        (HERE, "built"),
        (HERE, "skipped"),
        ("3.99", "failed"),
        ("3.99", "skipped"),
    }
    words = ("--all", "--no-index", "--no-isolation", "-o", yard.dist, "-j", "2")
    assert run("build", yard.project, *words, code=9).err.count("[unusable-interpreter]") == 1


def test_one_wheel_of_several_pythons(yard: Yard) -> None:
    """Where several Pythons come to one file, that is said: the matrix has too many of them."""
    text = (yard.project / "pyproject.toml").read_text()
    text = text.replace('platforms = ["any", ', 'platforms = ["any", "manylinux_x86_64", ')
    (yard.project / "pyproject.toml").write_text(text)
    notes = yard.build().object["warnings"]
    several = [note for note in notes if "the matrix needs only one" in note]
    assert len(several) == (3 if os.uname().machine == "x86_64" and sys.platform == "linux" else 0)


@pytest.mark.parametrize("workers", ["-j2", "dask"])
def test_the_same_bytes(yard: Yard, request: pytest.FixtureRequest, workers: str) -> None:
    """Wheels that several processes or a cluster have built are those of this one."""
    options = [workers]
    if workers == "dask":
        options = ["--executor", request.getfixturevalue("cluster").url]
    alone = yard.build().object
    before = yard.wheels()
    others = yard.build("--rebuild", *options).object
    assert yard.wheels() == before
    for one in (alone, others):
        for job in one["jobs"]:
            del job["seconds"]
    assert others == alone


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a scheduler with two workers."""
    pytest.importorskip("distributed")
    with DaskCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add_workers(2)
        yield cluster


def test_without_a_matrix(yard: Yard) -> None:
    """Several processes build the wheels that are asked for, of a project without a matrix too."""
    text = (yard.project / "pyproject.toml").read_text().partition("[tool.wheelfit.matrix]")[0]
    (yard.project / "pyproject.toml").write_text(text)
    assert "jobs" not in yard.build().object
    assert set(yard.wheels()) == NAMES
    assert yard.counts("-j", "2") == {"built": 3}
    assert yard.counts("-j", "2") == {"kept": 3}
    assert yard.build("--only-python", HERE, code=2).error["code"] == "usage"


def test_a_record_of_somebody_else(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wheels that came with a clone, beside a record that knows them, are built again."""
    for user, status in (("theirs", "built"), ("theirs", "kept"), ("mine", "built")):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / user))
        jobs = yard.build().object["jobs"]
        assert {job["status"] for job in jobs} - {"skipped"} == {status}


def test_nothing_is_left(yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of each job is gone when it is done: disks of runners are small."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    yard.is_isolated = True
    yard.build("-j", "2")
    assert tree(folder) == {}
    assert set(tree(yard.dist)) == {*NAMES, ".wheelfit-build"}


@pytest.mark.skipif(os.name != "posix", reason="signals of terminals")
def test_interrupted(yard: Yard) -> None:
    """Ctrl-C ends all builds; what was done before is kept, and nothing else is left."""
    begun = yard.folder / "begun"
    with (yard.project / "own_backend.py").open("a") as file:
        file.write(SLOW.format(begun=str(begun)))
    words = ["build", str(yard.project), "--all", "-o", str(yard.dist), "--no-index", "-j", "2"]
    program = subprocess.Popen(
        [sys.executable, "-m", "wheelfit", *words, "--no-isolation"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: begun.exists() and (yard.dist / ".wheelfit-build").exists())
        os.killpg(program.pid, signal.SIGINT)  # as a terminal sends it, to all
        _, err = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == 130
    assert "Traceback" not in err
    names = {"demo-1.0-py3-none-any.whl", "demo-1.0-py3-none-any-mkl.whl", ".wheelfit-build"}
    assert set(tree(yard.dist)) == names


def test_sdist(yard: Yard) -> None:
    """With --sdist the source distribution that all was built from is there too."""
    result = yard.build("--sdist", "--no-plain")
    assert result.object["sdist"] == str(yard.dist / "demo-1.0.tar.gz")
    assert {job["label"] for job in result.object["jobs"]} == {"v3", "mkl"}


@pytest.mark.parametrize(
    ("asked", "here", "expected"),
    [
        ("any", "win_amd64", True),
        ("any", "", True),
        ("macosx_universal2", "macosx_x86_64", True),
        ("macosx_arm64", "macosx_x86_64", False),
        ("musllinux_x86_64", "manylinux_x86_64", False),
        ("manylinux_x86_64", "", False),
    ],
)
def test_jobs_of_a_platform(asked: str, here: str, *, expected: bool) -> None:
    """A machine builds for its own platform."""
    assert is_for(Job(None, "3.13", asked), here) is expected
