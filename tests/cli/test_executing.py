"""Commands with many wheels, in several processes and on a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner, tree
from dask_cluster import DaskCluster

from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = pytest.mark.integration

STATIC = {"blas": {"library": ["openblas", "mkl"]}}
DOCUMENT = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}, "open": {"blas": {"library": ["openblas"]}}},
    static=STATIC,
)
COUNT = 40


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Start a scheduler with two workers."""
    pytest.importorskip("distributed")
    with DaskCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.add_workers(2)
        yield cluster


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write many wheels and a variants document into the current folder."""
    for number in range(COUNT):
        requires = [f"cu{number}", "torch"]
        build_wheel(tmp_path / "in", f"part-{number % 4}", f"1.{number}+cu12", requires=requires)
    (tmp_path / "document.json").write_text(json.dumps(DOCUMENT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS = {
    "make": ["make", "--label", "mkl", "--document", "document.json"],
    "repack": ["repack", "--strip-local-version", "--remove-dependency", "torch"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("workers", ["-j1", "-j2", "dask"])
def test_identical_results(
    wheels: Path, run: Runner, request: pytest.FixtureRequest, command: str, workers: str
) -> None:
    """B-39: processes and a cluster write the same bytes and report as this process."""
    words = COMMANDS[command]
    options = [workers]
    if workers == "dask":
        options = ["--executor", request.getfixturevalue("cluster").url]
    alone = run("wheel", *words, "in", "-o", "out", "--json").object
    expected = tree(wheels / "out")
    assert len(expected) == COUNT
    (wheels / "out").rename(wheels / "first")
    others = run("wheel", *words, "in", "-o", "out", "--json", *options).object
    assert others == alone
    assert tree(wheels / "out") == expected


@pytest.mark.parametrize("options", [[], ["-j", "2"]], ids=["here", "processes"])
def test_one_broken_wheel(wheels: Path, run: Runner, options: list[str]) -> None:
    """The first broken wheel is named, and nothing is written."""
    for number in (7, 30):
        (wheels / "in" / f"part_{number % 4}-1.{number}+cu12-py3-none-any.whl").write_bytes(b"x")
    result = run("wheel", *COMMANDS["repack"], "in", "-o", "out", "--json", *options, code=4)
    assert result.error["where"] == "in/part_2-1.30+cu12-py3-none-any.whl"
    assert not (wheels / "out").exists()


@pytest.mark.parametrize("options", [[], ["-j", "2"]], ids=["here", "processes"])
def test_keep_going(wheels: Path, run: Runner, options: list[str]) -> None:
    """With --keep-going the other wheels are written, and the broken ones are named."""
    names = [f"part_{number % 4}-1.{number}+cu12-py3-none-any.whl" for number in (30, 7)]
    for name in names:
        (wheels / "in" / name).write_bytes(b"x")
    words = [*COMMANDS["repack"], "in", "-o", "out", "--json", "--keep-going", *options]
    result = run("wheel", *words, code=9)
    assert [one["source"] for one in result.object["failed"]] == [f"in/{name}" for name in names]
    assert len(tree(wheels / "out")) == COUNT - 2
    assert len(result.object["wheels"]) == COUNT - 2


def test_check_on_a_cluster(wheels: Path, run: Runner, cluster: DaskCluster) -> None:
    """The report of a cluster is the same."""
    (wheels / "in" / "part_1-1.5+cu12-py3-none-any.whl").write_bytes(b"x")
    alone = run("wheel", "check", "in", "--json", code=9)
    others = run("wheel", "check", "in", "--json", "--executor", cluster.url, code=9)
    assert others.out == alone.out
