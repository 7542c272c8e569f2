"""``wheelfit install torch`` without an option, on the registries of November 2026."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest
from world.internet import World
from world.registries import ARM, LINUX, MAC, WINDOWS, Wheel, wheels
from world.table import fill

pytestmark = pytest.mark.integration

NVIDIA = "nvidia-cublas==13.1 ; platform_system == 'Linux'"
BUILDS = {
    "2.7.1": ("0.22.1", "cu118 cu126 cu128 rocm6.3"),
    "2.11.0": ("0.26.0", "cu126 cu128 cu130 rocm7.1 rocm7.2"),
    "2.13.0": ("0.28.0", "cu126 cu130 cu132 rocm7.1 rocm7.2"),
    "2.14.1": ("0.29.1", "cu126 cu130 cu132"),
    "2.15.0": ("0.30.0", "cu130 cu132"),
}
"""Releases of torch, with those of torchvision and the builds that there are."""


@pytest.fixture(scope="module")
def world(new_world: Callable[[], World]) -> World:
    """Return the whole world, with wheels that are as large as they say."""
    world = new_world()
    fill(world, claims_sizes=False)
    return world


def laid_out(world: World) -> World:
    """Add torch and torchvision to a world, as they are laid out in November 2026."""
    world.registry.add([Wheel("filelock", "3.1")])
    for library in ("nvidia-cublas", "rocm"):
        world.registry.add([Wheel(library, "13.1", f"py3-none-{LINUX}", size=900_000_000)])
    for version, (vision, builds) in BUILDS.items():
        for project, own, needs in (
            ("torch", version, ("filelock",)),
            ("torchvision", vision, (f"torch=={version}",)),
        ):
            world.registry.add(wheels(project, own, LINUX, ARM, requires=(*needs, NVIDIA)))
            world.registry.add(wheels(project, own, WINDOWS, MAC, requires=needs))
            for build in ("cpu", *builds.split()):
                places = (LINUX,) if build.startswith("rocm") else (LINUX, ARM, WINDOWS)
                found = wheels(project, f"{own}+{build}", *places, requires=needs)
                world.pytorch.add(f"whl/{build}", found)
            world.pytorch.add("whl/cpu", wheels(project, own, MAC, requires=needs))
    device = "amd-torch-device-gfx942"
    world.amd.add(
        "rocm/whl-multi-arch",
        [
            *wheels(
                "torch",
                "2.14.0+rocm7.14.0",
                LINUX,
                requires=("filelock", f"{device}; extra == 'device-gfx942'"),
                extras=("device-gfx942",),
            ),
            Wheel(device, "2.14.0+rocm7.14.0", f"py3-none-{LINUX}"),
            Wheel("rocm", "7.14.0"),
        ],
    )
    return world


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("cpu-x86_64-v3", "2.15.0+cpu (null)"),
        ("cuda-13.0-sm90", "2.15.0+cu132 (cu132)"),
        ("cuda-13.0-sm75", "2.15.0+cu132 (cu132)"),
        ("cuda-13.0-sm70", "2.14.1+cu126 (cu126)"),
        ("cuda-12.2-sm70", "2.14.1+cu126 (cu126)"),
        ("cuda-12.2-sm90", "2.14.1+cu126 (cu126)"),
        ("cuda-12.8-sm120", "2.11.0+cu128 (cu128)"),
        ("cuda-11.8-sm86", "2.7.1+cu118 (cu118)"),
        ("rocm-7.0-gfx942", "2.13.0+rocm7.2 (rocm7.2)"),
        ("rocm-7.0-gfx906", "2.13.0+rocm7.2 (rocm7.2)"),
    ],
)
def test_each_machine_gets_its_build(world: World, machine: str, expected: str) -> None:
    """Version and build are chosen together, by driver and compute capability."""
    found = world.choose(machine, "torch")
    assert found.chosen["torch"] == expected
    assert found.said["accelerators"] == []


@pytest.mark.parametrize(
    ("machine", "torch", "torchvision"),
    [
        ("cuda-12.2-sm70", "2.14.1+cu126 (cu126)", "0.29.1+cu126 (cu126)"),
        ("cuda-13.0-sm90", "2.15.0+cu132 (cu132)", "0.29.2+cu132 (cu132)"),
        ("cpu-x86_64-v3", "2.15.0+cpu (null)", "0.29.2+cpu (null)"),
        ("rocm-7.0-gfx942", "2.13.0+rocm7.2 (rocm7.2)", "0.28.0+rocm7.2 (rocm7.2)"),
    ],
)
def test_one_build_for_all(world: World, machine: str, torch: str, torchvision: str) -> None:
    """What goes with torch is of the same build, though nothing in its metadata says so."""
    found = world.choose(machine, "torchvision").chosen
    assert (found["torch"], found["torchvision"]) == (torch, torchvision)


def test_only_what_can_be_had_is_looked_up(world: World) -> None:
    """No index is asked that has nothing for the machine."""
    before = len(world.net.requests)
    result = world.choose("cpu-x86_64-v3", "torch", "--no-cache-dir")
    places = {url.split("/")[4] for url in world.net.requests[before:] if "pytorch.org" in url}
    assert places == {"cpu"}
    where = "https://download.pytorch.org/whl/cpu"
    assert f"torch comes from {where}, the index of its owner" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ["--no-bridges"],
        ["--index-url", "https://pypi.org/simple/", "--extra-index-url", "https://own.example/"],
        ["--find-links", "."],
    ],
)
def test_nobody_else_decides(world: World, words: list[str]) -> None:
    """Where the user says where things come from, the index of the owner does not count."""
    before = len(world.net.requests)
    world.net.hosts["own.example"] = lambda _path: None
    assert world.choose("cpu-x86_64-v3", "torch", *words).chosen["torch"] == "2.15.0 (plain)"
    assert not any("pytorch.org" in url for url in world.net.requests[before:])


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("cpu-x86_64-v3", "2.15.0 (null)"),
        ("cuda-13.0-sm90", "2.15.0 (cu132)"),
        ("cuda-12.2-sm70", "2.10.0 (cu128)"),
    ],
)
def test_out_of_reach(world: World, machine: str, expected: str) -> None:
    """If the index of the owner cannot be reached, the registry's build counts if it works."""
    host = world.net.hosts.pop("download.pytorch.org")
    shutil.rmtree(world.folder / "cache", ignore_errors=True)
    try:
        result = world.choose(machine, "torch", "--retries", "0")
    finally:
        world.net.hosts["download.pytorch.org"] = host
    assert result.chosen["torch"] == expected
    assert "the index of pytorch cannot be reached" in result.err
    assert "the index of its owner" not in result.err
    if machine == "cpu-x86_64-v3":
        (lost,) = result.said["accelerators"]
        assert lost["message"].endswith(
            f" of CUDA libraries are included that preset {machine} cannot use "
            "(no NVIDIA GPU); the index of pytorch has a build without them (cpu), and was not used"
        )


def test_out_of_reach_and_of_no_use(world: World) -> None:
    """If the registry's build cannot use the GPU of the machine, that is an error."""
    host = world.net.hosts.pop("download.pytorch.org")
    shutil.rmtree(world.folder / "cache", ignore_errors=True)
    try:
        result = world.choose("rocm-7.0-gfx942", "torch", "--retries", "0", code=3)
        anyway = world.choose("rocm-7.0-gfx942", "torch", "--no-bridges")
    finally:
        world.net.hosts["download.pytorch.org"] = host
    assert result.error["code"] == "no-accelerator"
    assert "cannot be reached" in result.error["note"]
    assert "--no-bridges" in result.error["hint"]
    assert anyway.chosen["torch"] == "2.15.0 (plain)"


def test_locked_for_one_machine(world: World) -> None:
    """A lock for a machine that is named has its own build alone."""
    world.run("lock", "torch", "-o", "pylock.toml", "--for", "cuda-12.2-sm70")
    text = (world.folder / "pylock.toml").read_text("utf-8")
    assert "download-r2.pytorch.org/whl/cu126/torch-2.14.1%2Bcu126" in text
    assert "whl/cpu" not in text


def test_really_installed(world: World) -> None:
    """One command installs the CPU build, and a second one has nothing to do."""
    target = ["--target", str(world.folder / "really"), "--for", "cpu-x86_64-v3"]
    result = world.run("install", "torchvision", *target)
    assert "installed torch 2.15.0+cpu (null)" in result.stdout
    assert result.stderr.count("the index of their owner") == 1
    assert "nvidia" not in result.stdout
    listed = json.loads(world.run("list", "--json", "--target", target[1]).stdout)["packages"]
    assert {one["name"]: one["version"] for one in listed} == {
        "torch": "2.15.0+cpu",
        "torchvision": "0.29.2+cpu",
    }
    assert "nothing to do" in world.run("install", "torchvision", *target).stdout
