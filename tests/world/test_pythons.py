"""What machines get with other Pythons: builds differ in those that they are made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.running import Runner
from world.conftest import enter
from world.internet import Answer, World
from world.table import MACHINES, fill

pytestmark = pytest.mark.integration

NO_FIT = 3
NEWEST = {
    "cpu-linux": "torch 2.15.0+cpu",
    "h100-580": "torch 2.15.0+cu132 cu132",
    "v100-535": "torch 2.14.1+cu126 cu126",
    "rtx5090-windows": "torch 2.15.0+cu132 cu132",
    "mi300x-rocm7": "torch 2.13.0+rocm7.2 rocm7.2",
    "mac-m3": "torch 2.15.0",
}
"""The newest torch that uses the machine, where a Python has all of them."""


@pytest.fixture(scope="module", params=["3.10", "3.12", "3.13", "3.14"])
def python(request: pytest.FixtureRequest) -> str:
    """Return a Python."""
    return str(request.param)


@pytest.fixture(scope="module")
def world(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return the whole world with wheels for that Python."""
    world = World(tmp_path_factory.mktemp("world"))
    fill(world, python=f"cp{python.replace('.', '')}")
    yield world
    world.net.close()


@pytest.fixture
def choose(
    world: World, python: str, run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Answer]:
    """Return a function that returns what an install for a machine with that Python would do."""
    enter(world, monkeypatch)

    def answer(machine: str, *words: str, code: int = 0) -> Answer:
        file = tmp_path / "host.toml"
        run("host", "new", "-o", file, "--force", "--python", python, machine)
        where = ("--dry-run", "--json", "--for", file, "--target", tmp_path / "target")
        result = run("install", *words, *where, code=code)
        return Answer(result.object, result.err)

    return answer


@pytest.mark.parametrize("machine", MACHINES)
def test_torch(choose: Callable[..., Answer], machine: str, python: str) -> None:
    """The newest torch with a wheel for the Python is taken, and for the machine."""
    old = NEWEST[machine].replace("2.15.0", "2.14.1")  # the last one for Python 3.10
    assert (old if python == "3.10" else NEWEST[machine]) in choose(machine, "torch").installed


def test_an_old_driver(choose: Callable[..., Answer], python: str) -> None:
    """CUDA 11 ended before Python 3.14: that the GPU stays idle then is said."""
    result = choose("cuda-11.8-sm70", "torch")
    if python != "3.14":
        assert "torch 2.7.1+cu118 cu118" in result.installed
        return
    assert result.installed == ["torch 2.15.0+cpu"]
    assert "torch leaves the NVIDIA GPU of " in result.words
    assert "idle: no build that uses one is for this machine" in result.words


def test_vllm_for_rocm(choose: Callable[..., Answer], python: str) -> None:
    """There are builds for Python 3.12 only; on another one that is said."""
    result = choose("mi300x-rocm7", "vllm")
    assert ("vllm 0.33.0+rocm722 rocm722" in result.installed) is (python == "3.12")
    assert ("idle: builds that use it are for cp312" in result.words) is (python != "3.12")


def test_flash_attn(choose: Callable[..., Answer], python: str) -> None:
    """There are builds for Python 3.10 to 3.13; on another one it is refused."""
    if python != "3.14":
        assert "flash-attn 2.8.3.post2 cu13torch2.10" in choose("h100-580", "flash-attn").installed
        return
    error = choose("h100-580", "flash-attn", code=NO_FIT).error
    assert "built for cp312, this is cp314" in error["note"]
    assert "--allow-source flash-attn" in error["hint"]
