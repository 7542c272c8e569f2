"""What the files of families say is true of the registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sources.bridge_registry import examine, examine_all, open_registry

from wheelfit.sources.bridges.catalogue import shipped, shipped_names
from wheelfit.sources.memoized import MemoizedRepository

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("registry")]

SAMPLE = ("cudf", "cupy", "faiss", "nvidia-nccl", "onnxruntime", "polars-runtime-32", "xgboost")


@pytest.fixture(scope="module")
def sources() -> Iterator[MemoizedRepository]:
    """Open the registry."""
    with open_registry() as repository:
        yield repository


@pytest.mark.parametrize("name", SAMPLE)
def test_a_few(sources: MemoizedRepository, name: str) -> None:
    """Members exist, have the extras, own files as is said, and need no other CUDA."""
    family = shipped(name)
    assert family is not None
    assert examine(family, sources).faults == []


@pytest.mark.corpora
def test_every_family(sources: MemoizedRepository) -> None:
    """The same holds for all of them, and at least sixty are alive."""
    families = [family for name in shipped_names() if (family := shipped(name))]
    named = [family for family in families if not family.is_of_indexes]
    reports = examine_all(named, sources, lambda _: None)
    assert {one.family.name: one.faults for one in reports if one.faults} == {}
    assert sum(one.is_live for one in reports) >= 60
