"""Who does the work: this machine, or a cluster."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dask_cluster import DaskCluster
from error_codes import raises_code

from wheelfit.building.batch import Batch
from wheelfit.building.executors import Workers, open_workers
from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.core.labels import Label
from wheelfit.core.metadata import read_document
from wheelfit.errors import NeedsExtra, UsageError, WorkerLost
from wheelfit.testing.batch_items import BatchItem, run_item
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import FileProblem, Unreachable

DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a scheduler with two workers, each a process."""
    with DaskCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add_workers(2)
        yield cluster


def carried_out(cluster: DaskCluster, errands: list[BatchItem], **options: Any) -> list[Any]:
    """Carry out errands on the cluster."""
    with open_workers(cluster.url) as workers:
        return Batch(
            run_item, errands, executor=workers.executor, workers=workers.count, **options
        ).run()


# --- on Dask -----------------------------------------------------------------------------------


@pytest.mark.integration
def test_work_on_a_cluster(cluster: DaskCluster, tmp_path: Path) -> None:
    """Both workers do some of it, and the results stand in the order of the items."""
    outcomes = carried_out(cluster, [BatchItem(n, tmp_path, seconds=0.01) for n in range(60)])
    assert [outcome.value["number"] for outcome in outcomes] == list(range(60))
    processes = {outcome.value["process"] for outcome in outcomes}
    assert processes == {worker.pid for worker in cluster.workers}


@pytest.mark.integration
def test_faults_on_a_cluster(cluster: DaskCluster, tmp_path: Path) -> None:
    """Faults are those of their items, and are tried again or not, as on this machine."""
    errands = [
        BatchItem(0, tmp_path, "input"),
        BatchItem(1, tmp_path, "disk", times=1),
        BatchItem(2, tmp_path, "unsendable"),
        BatchItem(3, tmp_path),
    ]
    outcomes = carried_out(cluster, errands, batch_size=2)
    first = outcomes[0].error
    assert first is not None
    assert first.reference == "invalid-label"
    assert [outcome.attempts for outcome in outcomes] == [1, 2, 1, 1]
    assert [outcome.error is None for outcome in outcomes] == [False, True, False, True]


@pytest.mark.integration
def test_equal_bytes(cluster: DaskCluster, tmp_path: Path) -> None:
    """B-39: wheels that a cluster made are those of this machine, byte by byte."""
    wheels = [build_wheel(tmp_path, "some", f"1.{n}") for n in range(20)]
    document = read_document(DOCUMENT, where="the test")
    made: list[dict[str, str]] = []
    for url in (None, cluster.url):
        folder = tmp_path / f"made-{len(made)}"
        folder.mkdir()
        make = partial(repack_wheel, folder=folder, label=Label("mkl"), document=document)
        with open_workers(url) as workers:
            workers.check_files(wheels[:1], [folder])
            outcomes = Batch(
                make, wheels, executor=workers.executor, workers=workers.count, batch_size=3
            ).run()
        assert [outcome.value for outcome in outcomes] == sorted(folder.iterdir(), key=_minor)
        made.append(
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        )
    assert made[0] == made[1]
    assert len(made[0]) == 20


def _minor(path: Path) -> int:
    return int(path.name.split("-")[1].split(".")[1])


@pytest.mark.integration
def test_a_worker_killed_in_the_middle(tmp_path: Path) -> None:
    """The work goes on with the other worker, and all of it is done."""
    errands = [BatchItem(n, tmp_path, seconds=0.02) for n in range(60)]
    with DaskCluster(tmp_path / "cluster") as cluster:
        cluster.add_workers(2)
        done = 0

        def kill(_: object) -> None:
            nonlocal done
            done += 1
            if done == 20:
                cluster.workers[0].kill()

        outcomes = carried_out(cluster, errands, on_outcome=kill)
    assert [one.value["number"] for one in outcomes] == list(range(60))
    last = {one.value["process"] for one in outcomes[-20:]}
    assert last == {cluster.workers[1].pid}


@pytest.mark.integration
def test_the_scheduler_killed_in_the_middle(tmp_path: Path) -> None:
    """Without its scheduler the work ends with one error, soon."""
    errands = [BatchItem(n, tmp_path, seconds=0.02) for n in range(200)]
    with DaskCluster(tmp_path / "cluster") as cluster:
        cluster.add_workers(1)
        killer = threading.Timer(0.0, cluster.scheduler.kill)

        def kill(_: object) -> None:
            if not killer.ident:
                killer.start()

        with pytest.raises(Unreachable, match="the scheduler stopped"):
            carried_out(cluster, errands, on_outcome=kill)


@pytest.mark.integration
def test_who_kills_every_worker_is_found_out(tmp_path: Path) -> None:
    """What Dask gives up for the deaths of its workers is the fault of one item."""
    errands = [BatchItem(n, tmp_path, "killed" if n == 1 else "") for n in range(4)]
    with DaskCluster(tmp_path / "cluster") as cluster:
        cluster.add_workers(3)
        outcomes = carried_out(cluster, errands, attempts=1)
    assert isinstance(outcomes[1].error, WorkerLost)
    assert [n for n, one in enumerate(outcomes) if one.error is None] == [0, 2, 3]


# --- what workers must have ----------------------------------------------------------------------


@pytest.mark.parametrize("url", ["dask://127.0.0.1:9", "dask://["])
def test_nobody_answers(url: str) -> None:
    """An address where nobody listens is said, with what to look at."""
    with pytest.raises(Unreachable) as excinfo, open_workers(url, timeout=0.2):
        pytest.fail("it was opened")
    assert excinfo.value.where == url
    assert "dask scheduler" in (excinfo.value.hint or "")


@pytest.mark.integration
def test_no_workers(tmp_path: Path) -> None:
    """A scheduler alone does nothing."""
    with (
        DaskCluster(tmp_path) as cluster,
        raises_code("unfit-workers", match="the scheduler has no workers"),
        open_workers(cluster.url, timeout=0.5),
    ):
        pytest.fail("it was opened")


@pytest.mark.integration
def test_worker_without_wheelfit(tmp_path: Path) -> None:
    """A worker whose Python has no wheelfit is named."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for folder in map(Path, sys.path):
        if folder.name in ("site-packages", "dist-packages"):
            for path in folder.iterdir():
                if "wheelfit" not in path.name and not (packages / path.name).exists():
                    (packages / path.name).symlink_to(path)
    with DaskCluster(tmp_path / "cluster") as cluster:
        cluster.add_workers(
            1, before=f"import sys; sys.path.append({str(packages)!r})", flags=("-S", "-E")
        )
        with (
            raises_code("unfit-workers", match="the worker has no wheelfit"),
            open_workers(cluster.url),
        ):
            pytest.fail("it was opened")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("before", "description"),
    [
        (
            "import sys; sys.path.insert(0, {folder!r})",
            "the worker has wheelfit 99.9, and this machine",
        ),
        (
            "import zlib; old = zlib.compressobj; zlib.compressobj = lambda _, *all: old(1, *all)",
            "zlib of the worker compresses to other bytes",
        ),
    ],
    ids=["version", "zlib"],
)
def test_other_worker(tmp_path: Path, before: str, description: str) -> None:
    """B-39: a worker from which other results would come is refused."""
    info = tmp_path / "wheelfit-99.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: wheelfit\nVersion: 99.9\n")
    with DaskCluster(tmp_path / "cluster") as cluster:
        cluster.add_workers(1, before=before.format(folder=str(tmp_path)))
        with raises_code("unfit-workers", match=description) as excinfo, open_workers(cluster.url):
            pytest.fail("it was opened")
    assert (excinfo.value.where or "").startswith("tcp://127.0.0.1:")


@pytest.mark.integration
def test_files_that_workers_see(cluster: DaskCluster, tmp_path: Path) -> None:
    """Files and folders that all workers share are no reason to refuse; nothing is left there."""
    (tmp_path / "a.whl").write_bytes(b"x")
    with open_workers(cluster.url) as workers:
        assert workers.are_remote
        workers.check_files([tmp_path / "a.whl"], [tmp_path])
    assert [path.name for path in tmp_path.iterdir()] == ["a.whl"]


@pytest.mark.parametrize("is_written", [False, True], ids=["read", "written"])
def test_files_that_a_worker_does_not_see(tmp_path: Path, *, is_written: bool) -> None:
    """A worker for which a path means nothing is named, before anything is done."""
    (tmp_path / "a.whl").write_bytes(b"x")
    with open_workers() as here:
        workers = Workers(
            here.executor,
            here.count,
            "a cluster",
            lambda function, paths: {
                "tcp://one": function(paths),
                "tcp://two": [None for _ in paths],
            },
        )
        with raises_code("unfit-workers", match="the worker has other files in") as excinfo:
            workers.check_files(*(([], [tmp_path]) if is_written else ([tmp_path / "a.whl"], [])))
    assert excinfo.value.where == "tcp://two"
    assert [path.name for path in tmp_path.iterdir()] == ["a.whl"]


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that is not there is found before workers are asked."""
    with open_workers() as here:
        workers = Workers(here.executor, here.count, "a cluster", lambda _f, _paths: {})
        with pytest.raises(FileProblem, match="cannot be written"):
            workers.check_files([], [tmp_path / "missing"])


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "jobs", "count", "description"),
    [
        (None, None, 1, "this process"),
        (None, 3, 3, "3 processes"),
        ("processes", 2, 2, "2 processes"),
        ("processes", 1, 1, "this process"),
    ],
)
def test_this_machine(url: str | None, jobs: int | None, count: int, description: str) -> None:
    """Without a URL the work is done here, in as many processes as was said."""
    with open_workers(url, jobs=jobs) as workers:
        assert (workers.count(), workers.description, workers.are_remote) == (
            count,
            description,
            False,
        )
        workers.check_files([Path("/missing")], [Path("/missing")])  # nobody else has to see it


def test_all_processors() -> None:
    """`processes` alone means as many as this process may use."""
    with open_workers("processes") as workers:
        assert workers.count() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    "url",
    ["ray", "spark://host:1", "dask", "DASK+TLS://h:1", "processes:4", "tcp://127.0.0.1:9", ""],
)
def test_unknown_executors(url: str) -> None:
    """What is not an executor is a slip of whoever typed it."""
    with pytest.raises(UsageError, match="unknown executor"), open_workers(url):
        pytest.fail("it was opened")


def test_jobs_of_a_cluster() -> None:
    """A cluster has workers of its own, so a number of processes is a contradiction."""
    with pytest.raises(UsageError, match="-j is the number"), open_workers("dask://h:1", jobs=2):
        pytest.fail("it was opened")


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the extra is named."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NeedsExtra, match="needs distributed"), open_workers("dask://127.0.0.1:9"):
        pytest.fail("it was opened")
