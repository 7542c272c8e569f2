"""What is done to one wheel, as workers get it."""

from __future__ import annotations

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from wheelfit.building.repack.edits import Edits
from wheelfit.building.wheel_jobs import (
    Convert,
    MakePlain,
    Operation,
    Relabel,
    Repack,
    Repair,
    WheelJob,
    run_job,
)
from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import read_document, write_document
from wheelfit.errors import BuildFailed
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.wheels.rewrite import RewriteOptions
from wheelfit_runtime.errors import InvalidWheel

CONTENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)
DOCUMENT = write_document(read_document(CONTENT, where="document"))
MKL = parse_label("mkl")
ACTS: list[Operation] = [
    Relabel(),
    MakePlain(),
    Convert(),
    Repack(label=MKL, document=DOCUMENT),
    Repack(Edits(name="other"), MKL, DOCUMENT),
]


@pytest.mark.parametrize("operation", ACTS, ids=lambda operation: type(operation).__name__)
def test_travels(operation: Operation, tmp_path: Path, output: Path) -> None:
    """A job and what became of it can be sent to another process and back."""
    source = build_wheel(tmp_path, "fast", "1.0", label="mkl", document=CONTENT)
    job = WheelJob(source, operation, output, RewriteOptions(epoch=0), copy_unchanged=True)
    assert pickle.loads(pickle.dumps(job)) == job
    done = run_job(job)
    assert pickle.loads(pickle.dumps(done)) == done
    assert done.is_new
    assert done.path.parent == output


@pytest.mark.integration
def test_in_other_processes(tmp_path: Path, output: Path) -> None:
    """B-39: workers write what this process writes; an error comes back as it is."""
    wheels = [build_wheel(tmp_path / name, name, "1.0") for name in ("a", "b")]
    here = tmp_path / "here"
    here.mkdir()
    operation = Repack(label=MKL, document=DOCUMENT)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        theirs = list(pool.map(run_job, [WheelJob(wheel, operation, output) for wheel in wheels]))
        wheels[0].write_bytes(b"no wheel")
        failed = pool.submit(
            run_job, WheelJob(wheels[0], operation, output, options=RewriteOptions(overwrite=True))
        ).exception()
    assert isinstance(failed, InvalidWheel)
    ours = run_job(WheelJob(wheels[1], operation, here))
    assert theirs[1].path.read_bytes() == ours.path.read_bytes()
    assert theirs[1].content_verified


def test_details(tmp_path: Path, output: Path) -> None:
    """A result has the names of removed dependencies, and whether its content was verified."""
    source = build_wheel(tmp_path, "fast", "1.0", requires=("Some_Name>=1; extra == 'x'", "other"))
    edits = Edits(remove=frozenset(map(canonicalize_name, ("some-name", "missing"))))
    for verify in (True, False):
        options = RewriteOptions(overwrite=True, verify_content=verify)
        result = run_job(WheelJob(source, Repack(edits), output, options))
        assert result.removed_dependencies == {"some-name"}
        assert result.content_verified is verify


def test_repair(tmp_path: Path, output: Path) -> None:
    """A wheel for any platform needs no repair; one for a platform is given to the command."""
    operation = Repair("false {wheel} {dest_dir}")
    assert not run_job(WheelJob(build_wheel(tmp_path, "fast", "1.0"), operation, output)).is_new
    source = build_wheel(tmp_path, "fast", "1.0", tag="py3-none-linux_x86_64")
    with pytest.raises(BuildFailed, match="false failed with 1"):
        run_job(WheelJob(source, operation, output))


def test_nothing_to_do(tmp_path: Path, output: Path) -> None:
    """A wheel that needs nothing is left alone, or copied byte by byte if that is wanted."""
    plain = build_wheel(tmp_path, "fast", "1.0")
    for operation in (MakePlain(skip_plain=True), Convert()):
        done = run_job(WheelJob(plain, operation, output))
        assert (done.path, done.is_new) == (plain, False)
        options = RewriteOptions(overwrite=True)
        done = run_job(WheelJob(plain, operation, output, options, copy_unchanged=True))
        assert done.is_new
        assert done.path.read_bytes() == plain.read_bytes()
