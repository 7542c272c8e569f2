"""Families held against registries: what is not so is found, and what the registry has is so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from world.registries import StaticIndex, Wheel

from wheelfit.operations.bridge_checks import CheckBridgesRequest, check_bridges
from wheelfit.operations.context import Context
from wheelfit.sources.bridges.catalogue import SHIPPED, shipped
from wheelfit.testing.internet import Internet
from wheelfit.testing.wheels import build_wheel

HEAD = """
source = "https://acme.example/install"
checked = 2026-11-22
says = "one of two"
"""
NAMES = f"""
name = "acme"
{HEAD}
extras = ["plots"]

[[member]]
distribution = "acme-gpu"
label = "cuda13"
when.nvidia.cuda_version_lower_bound = ["13.0"]
when.nvidia.sm_arch = ["75_virtual"]

[[member]]
distribution = "acme"
"""
SAMPLE = ("cudf", "cupy", "faiss", "nvidia-nccl", "onnxruntime", "polars-runtime-32", "xgboost")


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """Return the file of a family."""
    path = tmp_path / "acme.toml"
    path.write_text(NAMES, encoding="utf-8")
    return path


def faults(family: Path, wheels: Path) -> list[str]:
    """Return what is not as a file says, in a registry that is a folder."""
    request = CheckBridgesRequest(
        names=(str(family),), no_index=True, find_links=(str(wheels),), cache_dir=str(wheels / ".c")
    )
    (check,) = check_bridges(request, Context()).families
    return check.faults


def test_as_it_says(family: Path, tmp_path: Path) -> None:
    """Nothing is reported of a family that is as its file says."""
    for name in ("acme", "acme-gpu"):
        build_wheel(tmp_path, name, "2.0", files={"acme.py": ""}, provides_extra=["plots"])
    assert faults(family, tmp_path) == []


def test_not_as_it_says(family: Path, tmp_path: Path) -> None:
    """Missing extras, other CUDA and unshared files are reported, each in a clause."""
    build_wheel(tmp_path, "acme", "2.0", files={"acme.py": ""})
    build_wheel(
        tmp_path, "acme-gpu", "2.0", files={"gpu.py": ""}, requires=["nvidia-cublas-cu12>=12"]
    )
    assert faults(family, tmp_path) == [
        "acme-gpu 2.0 needs libraries of CUDA 12, but its rule is for 13",
        "no member has the extra plots",
        "exclusive is true, but members do not own the same files",
    ]


def test_nothing_there(family: Path, tmp_path: Path) -> None:
    """A member without wheels is reported."""
    assert "acme-gpu has no wheels" in faults(family, tmp_path)


def test_indexes(tmp_path: Path) -> None:
    """Builds without a member, members without a build, and unnamed hosts are reported."""
    index = StaticIndex("acme.example", files_host="files.example")
    index.add("whl/cu130", [Wheel("acme", "2.0+cu130")])
    index.add("whl/cpu", [Wheel("acme", "2.0+cpu")])
    builds = ("2.0+cu140", "2.0+cpu", "9.0+cu150", "10.0+cu150")
    index.add("whl", [Wheel("acme", version) for version in builds])
    rows = "".join(
        f"""
[[member]]
index = "{build}"
local = "{build}"
label = "{build}"
versions = "<{limit}"
when.nvidia.cuda_version_lower_bound = ["13.0"]
when.nvidia.sm_arch = ["75_virtual"]
"""
        for build, limit in (("cu130", 2), ("cu126", 3))
    )
    path = tmp_path / "acmes.toml"
    path.write_text(
        f'name = "acmes"\nprojects = ["acme"]\nbase = "https://acme.example/whl"\n'
        f'hosts = ["acme.example"]\n{HEAD}{rows}[[member]]\nindex = "cpu"\nlocal = "cpu"\n'
        'label = "null"\n',
        encoding="utf-8",
    )
    with Internet(tmp_path / "certificates", {"acme.example": index}) as net:
        context = Context(environ={**os.environ, **net.environ})
        request = CheckBridgesRequest(
            names=(str(path),), index_url="https://acme.example/whl", no_cache_dir=True
        )
        (check,) = check_bridges(request, context).families
    assert check.faults == [
        "acme-2.0+cu130-py3-none-any.whl in cu130 matches no member",
        "no wheel in cu130 matches cu130 <2",
        "no wheel in cu126 matches cu126 <3",
        "files are on files.example, which hosts does not name",
        "no member is for builds like acme 2.0+cu140",
        "no member is for builds like acme 10.0+cu150",
    ]


@pytest.fixture
def of_registry(registry: object) -> CheckBridgesRequest:
    """Return a request that looks where pip is told to."""
    del registry
    return CheckBridgesRequest(no_cache_dir=True)


@pytest.mark.network
@pytest.mark.parametrize("name", SAMPLE)
def test_a_few(of_registry: CheckBridgesRequest, name: str) -> None:
    """Members exist, have the extras, own files as is said, and need no other CUDA."""
    (check,) = check_bridges(of_registry.with_options(names=(name,)), Context()).families
    assert check.faults == []


@pytest.mark.network
@pytest.mark.corpora
def test_every_family(of_registry: CheckBridgesRequest) -> None:
    """The same holds for all families of names."""
    names = tuple(
        name for name in SHIPPED.names() if (one := shipped(name)) and not one.is_of_indexes
    )
    report = check_bridges(of_registry.with_options(names=names), Context())
    assert {check.family.name: check.faults for check in report.families if check.faults} == {}


@pytest.mark.usefixtures("bare_environment")
def test_places_out_of_reach(tmp_path: Path) -> None:
    """Places that cannot be read for one reason are reported in one clause."""
    registry = StaticIndex("acme.example")
    with Internet(tmp_path / "certificates", {"acme.example": registry}) as net:
        context = Context(environ={**os.environ, **net.environ})
        request = CheckBridgesRequest(
            names=("rocm-sdk",), index_url="https://acme.example/", no_cache_dir=True, retries=0
        )
        (check,) = check_bridges(request, context).families
    (fault,) = check.faults
    assert fault.startswith("whl-multi-arch and ")
    assert fault.count("https://repo.amd.com cannot be read") == 1
