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
from dask_cluster import DaskCluster
from programs import until
from projects.writing import write_project

from wheelfit.building.jobs import runs_on
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


class Builder:
    """Builds of all wheels of one project."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.folder = folder
        self.dist = folder / "dist"
        self.is_isolated = False
        self.project = write_project(folder / "demo", "demo", backend=BACKEND)
        (self.project / "more").write_text("")
        self.append_settings(TABLE + MATRIX.format(python=HERE))

    def append_settings(self, text: str) -> None:
        """Append text to the project's pyproject.toml."""
        with (self.project / "pyproject.toml").open("a") as file:
            file.write(text)

    def build(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Build all, with a JSON report."""
        fixed = ("--no-index", "--json", "-o", self.dist)
        isolation = () if self.is_isolated else ("--no-isolation",)
        return self._run("build", self.project, "--all", *fixed, *isolation, *words, code=code)

    def counts(self, *words: str | Path, code: int = 0) -> dict[str, int]:
        """Build all, and return the number of jobs by status."""
        jobs: list[Any] = self.build(*words, code=code).object["jobs"]
        return dict(Counter(job["status"] for job in jobs))

    def wheels(self) -> dict[str, str]:
        """Return the digests of the wheels by file name."""
        return {name: value for name, value in tree(self.dist).items() if name.endswith(".whl")}


@pytest.fixture
def builder(run: Runner, tmp_path: Path) -> Builder:
    """Return a builder of a project with a matrix."""
    return Builder(run, tmp_path)


NAMES = {f"demo-1.0-py3-none-any{label}.whl" for label in ("", "-v3", "-mkl")}


def test_report(builder: Builder) -> None:
    """Each job is built or skipped with a reason, and the wheels are in the folder."""
    result = builder.build()
    assert set(builder.wheels()) == NAMES
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


def test_relative_paths(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels are reported below the folder as it was given."""
    monkeypatch.chdir(builder.folder)
    paths = {wheel["path"] for wheel in builder.build("-o", "out").object["wheels"]}
    assert paths == {str(Path("out", name)) for name in NAMES}


def test_unchanged_wheels_are_kept(builder: Builder) -> None:
    """Wheels are kept unless the source, the wheel, the recipe or a constraint changed."""
    assert builder.counts() == {"built": 3, "skipped": 2}
    before = builder.wheels()
    assert builder.counts() == {"kept": 3, "skipped": 2}
    (builder.dist / "demo-1.0-py3-none-any-v3.whl").unlink()
    assert builder.counts() == {"kept": 2, "built": 1, "skipped": 2}
    assert builder.wheels() == before
    assert builder.counts("--rebuild") == {"built": 3, "skipped": 2}
    constraints = builder.folder / "constraints.txt"
    for text in ("setuptools<90", "setuptools<91"):
        constraints.write_text(text)
        assert builder.counts("-c", constraints) == {"built": 3, "skipped": 2}
    assert builder.counts("-c", constraints) == {"kept": 3, "skipped": 2}
    (builder.project / "more").write_text("\nMORE = 1")
    assert builder.counts() == {"built": 3, "skipped": 2}
    assert builder.wheels().keys() == before.keys()
    assert builder.wheels() != before


def test_failing_job(builder: Builder) -> None:
    """A failing job is reported with its reason; the other wheels are kept."""
    (builder.project / "broken").touch()
    result = builder.build(code=9)
    reasons = {job["label"]: job["error"] for job in result.object["jobs"] if job["error"]}
    assert list(reasons) == ["v3"], reasons  # all of it, for whoever reads why this test failed
    assert reasons["v3"]["code"] == "build-failed", reasons
    assert "the compiler has a bug" in str(reasons["v3"]["note"]), reasons
    assert set(builder.wheels()) == NAMES - {"demo-1.0-py3-none-any-v3.whl"}
    assert builder.counts(code=9) == {"kept": 2, "failed": 1, "skipped": 2}
    (builder.project / "broken").unlink()
    assert builder.counts() == {"built": 3, "skipped": 2}  # its source is another one now


def test_text_output(builder: Builder, run: Runner) -> None:
    """The text has a line for each build, the reason of each failure, and the totals."""
    (builder.project / "broken").touch()
    result = run(
        "build",
        builder.project,
        "--all",
        "-o",
        builder.dist,
        "--no-index",
        "--no-isolation",
        code=9,
    )
    assert "the compiler has a bug" in result.err, result
    assert f"failed v3 for Python {HERE}" in result.err
    assert ".tar.gz, which has no files from above the project's folder" in result.err
    assert (
        result.err.splitlines()[-1] == "2 built, 1 failed, 2 for other platforms (manylinux_s390x)"
    )


def test_missing_interpreter(builder: Builder) -> None:
    """A missing Python fails its jobs, unless they are left out."""
    text = (builder.project / "pyproject.toml").read_text()
    text = text.replace(f'pythons = ["{HERE}"]', f'pythons = ["{HERE}", "3.99"]')
    (builder.project / "pyproject.toml").write_text(text)
    result = builder.build(code=9)
    failed = [job for job in result.object["jobs"] if job["status"] == "failed"]
    assert {one["python"] for one in failed} == {"3.99"}
    assert failed[0]["error"]["code"] == "unusable-interpreter"
    assert "--only-python" in failed[0]["error"]["hint"]
    assert builder.counts("--only-python", HERE) == {"kept": 3, "skipped": 2}
    assert builder.counts("--python", sys.executable) == {"kept": 3, "skipped": 2}
    assert builder.build("--only-python", "3.98", code=2).error["code"] == "usage"


@pytest.mark.skipif(sys.platform == "win32", reason="shell scripts are not run there")
def test_unusable_interpreter(
    builder: Builder, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unusable Python on PATH fails only its jobs, and is reported once."""
    text = (builder.project / "pyproject.toml").read_text()
    text = text.replace(f'pythons = ["{HERE}"]', f'pythons = ["{HERE}", "3.99"]')
    (builder.project / "pyproject.toml").write_text(text)
    shim = builder.folder / "shims" / "python3.99"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho not installed >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(shim.parent), prepend=os.pathsep)
    jobs = builder.build(code=9).object["jobs"]
    assert {(job["python"], job["status"]) for job in jobs} == {
        (HERE, "built"),
        (HERE, "skipped"),
        ("3.99", "failed"),
        ("3.99", "skipped"),
    }
    words = ("--all", "--no-index", "--no-isolation", "-o", builder.dist, "-j", "2")
    assert run("build", builder.project, *words, code=9).err.count("[unusable-interpreter]") == 1


def test_several_pythons_build_the_same_wheel(builder: Builder) -> None:
    """Several Pythons that build the same file cause a warning."""
    text = (builder.project / "pyproject.toml").read_text()
    text = text.replace('platforms = ["any", ', 'platforms = ["any", "manylinux_x86_64", ')
    (builder.project / "pyproject.toml").write_text(text)
    notes = builder.build().object["warnings"]
    several = [note for note in notes if "the matrix needs only one" in note]
    assert len(several) == (3 if os.uname().machine == "x86_64" and sys.platform == "linux" else 0)


@pytest.mark.parametrize("workers", ["-j2", "dask"])
def test_parallel_builds_are_identical(
    builder: Builder, request: pytest.FixtureRequest, workers: str
) -> None:
    """Wheels of several processes or of a cluster equal those of one process."""
    options = [workers]
    if workers == "dask":
        options = ["--executor", request.getfixturevalue("cluster").url]
    alone = builder.build().object
    before = builder.wheels()
    others = builder.build("--rebuild", *options).object
    assert builder.wheels() == before
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


def test_parallel_build_without_a_matrix(builder: Builder) -> None:
    """Several processes can build a project without a matrix."""
    text = (builder.project / "pyproject.toml").read_text().partition("[tool.wheelfit.matrix]")[0]
    (builder.project / "pyproject.toml").write_text(text)
    assert "jobs" not in builder.build().object
    assert set(builder.wheels()) == NAMES
    assert builder.counts("-j", "2") == {"built": 3}
    assert builder.counts("-j", "2") == {"kept": 3}
    assert builder.build("--only-python", HERE, code=2).error["code"] == "usage"


def test_parallel_build_of_a_property(builder: Builder, run: Runner) -> None:
    """Several processes can build a variant that options define, without a table."""
    text = (builder.project / "pyproject.toml").read_text().partition("[variant")[0]
    (builder.project / "pyproject.toml").write_text(text)
    words = ("-p", "x86_64::level::v3", "--provider", "x86_64", "--plain", "--variant", "fast")
    fixed = ("--no-index", "--no-isolation", "-j", "2", "-o", builder.dist)
    run("build", builder.project, *words, *fixed)
    names = {path.name for path in builder.dist.glob("*.whl")}
    assert names == {"demo-1.0-py3-none-any.whl", "demo-1.0-py3-none-any-fast.whl"}


def test_without_a_cache(builder: Builder) -> None:
    """Without a cache nothing is recorded, and everything is built again."""
    assert builder.counts("--no-cache-dir") == {"built": 3, "skipped": 2}
    assert builder.counts("--no-cache-dir") == {"built": 3, "skipped": 2}


def test_build_record_of_another_user(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wheels that another user built, and changed wheels, are built again."""
    for user, status in (("theirs", "built"), ("theirs", "kept"), ("mine", "built")):
        monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path / user))
        jobs = builder.build().object["jobs"]
        assert {job["status"] for job in jobs} - {"skipped"} == {status}
    for wheel in builder.dist.glob("*.whl"):
        wheel.write_bytes(b"theirs")
    assert builder.counts() == {"built": 3, "skipped": 2}


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_record_that_others_can_write(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record in a folder that others can write to is neither used nor written."""
    folder = tmp_path / "cache" / "builds"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(folder.parent))
    for _ in range(2):
        assert builder.counts() == {"built": 3, "skipped": 2}
    assert not list(folder.iterdir())


def test_temporary_files_are_deleted(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of each job is deleted after the job."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    builder.is_isolated = True
    builder.build("-j", "2")
    assert tree(folder) == {}
    assert set(tree(builder.dist)) == {*NAMES}


@pytest.mark.skipif(os.name != "posix", reason="signals of terminals")
def test_interrupt(builder: Builder) -> None:
    """Ctrl-C ends all builds; finished wheels are kept and nothing else remains."""
    begun = builder.folder / "begun"
    names = {"demo-1.0-py3-none-any.whl", "demo-1.0-py3-none-any-mkl.whl"}
    with (builder.project / "own_backend.py").open("a") as file:
        file.write(SLOW.format(begun=str(begun)))
    words = [
        "build",
        str(builder.project),
        "--all",
        "-o",
        str(builder.dist),
        "--no-index",
        "-j",
        "2",
    ]
    program = subprocess.Popen(
        [sys.executable, "-m", "wheelfit", *words, "--no-isolation"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: begun.exists() and all((builder.dist / name).exists() for name in names))
        os.killpg(program.pid, signal.SIGINT)  # as a terminal sends it, to all
        _, err = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == 130
    assert "Traceback" not in err
    assert set(tree(builder.dist)) == names


def test_sdist_is_delivered(builder: Builder) -> None:
    """With --sdist the source distribution is in the folder too."""
    result = builder.build("--sdist", "--no-plain")
    assert result.object["sdist"] == str(builder.dist / "demo-1.0.tar.gz")
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
def test_job_for_this_platform(asked: str, here: str, *, expected: bool) -> None:
    """A machine builds only for its own platform."""
    assert runs_on(Job(None, "3.13", asked), here) is expected
