"""One lock of torch for every machine, from which each takes its own build."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.pylock import Pylock
from programs import run_program
from world.internet import World
from world.registries import LINUX, Wheel, wheels
from world.table import fill

pytestmark = pytest.mark.integration

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture(scope="module")
def world(new_world: Callable[[], World]) -> World:
    """Return the whole world, and one lock of torch and torchvision."""
    world = new_world()
    fill(world, claims_sizes=False)
    world.run("lock", "torch", "torchvision", "--python-version", PYTHON)
    return world


def chosen(world: World, lock: str, machine: str) -> dict[str, str]:
    """Return what a machine takes from a lock: versions and labels by name."""
    where = ["--for", machine, "--target", "target", "--dry-run", "--json"]
    report = json.loads(world.run("sync", lock, *where).stdout)
    return {one["name"]: f"{one['version']} ({one['label']})" for one in report["install"]}


@pytest.mark.parametrize(
    ("machine", "torch", "torchvision"),
    [
        ("cpu-linux", "2.13.0+cpu (null)", "0.28.0+cpu (null)"),
        ("h100-580", "2.13.0+cu132 (cu132)", "0.28.0+cu132 (cu132)"),
        ("v100-535", "2.13.0+cu126 (cu126)", "0.28.0+cu126 (cu126)"),
        ("mi300x-rocm7", "2.13.0+rocm7.2 (rocm7.2)", "0.28.0+rocm7.2 (rocm7.2)"),
        ("rtx5090-windows", "2.13.0+cu132 (cu132)", "0.28.0+cu132 (cu132)"),
        ("mac-m3", "2.13.0 (null)", "0.28.0 (null)"),
    ],
)
def test_each_machine_takes_its_build(
    world: World, machine: str, torch: str, torchvision: str
) -> None:
    """The lock has the newest release that serves every kind of machine."""
    found = chosen(world, "pylock.toml", machine)
    assert (found["torch"], found["torchvision"]) == (torch, torchvision)


def test_installed_and_unchanged(world: World) -> None:
    """What is installed from the lock is what it wants, and the same lock would be made again."""
    words = ["sync", "pylock.toml", "--for", "v100-535", "--target", "installed"]
    assert "installed torch 2.13.0+cu126" in world.run(*words).stdout
    assert "nothing to do" in world.run(*words).stdout
    before = (world.folder / "pylock.toml").read_bytes()
    again = ["lock", "torch", "torchvision", "--python-version", PYTHON]
    world.run(*again, "--check")
    world.run(*again, "--no-cache-dir")
    assert (world.folder / "pylock.toml").read_bytes() == before
    tree = world.run("tree", "pylock.toml", "--for", "v100-535").stdout
    assert "torch 2.13.0 (cu126)" in tree
    exported = world.run("export", "pylock.toml", "--for", "v100-535").stdout
    assert "whl/cu126/torch-2.13.0%2Bcu126" in exported


def test_other_tools_read_it(world: World, tmp_path: Path) -> None:
    """The build for any machine is for pip; each part is as the standard wants it."""
    table = tomllib.loads((world.folder / "pylock.toml").read_text("utf-8"))
    Pylock.from_dict(table)
    (entry,) = [package for package in table["packages"] if package["name"] == "torch"]
    versions = {wheel["name"].split("-")[1] for wheel in entry["wheels"]}
    assert versions == {"2.13.0", "2.13.0+cpu"}  # the Mac's has no local version
    assert "version" not in entry
    words = ["install", "--no-index", "--no-deps", "-r", str(world.folder / "pylock.toml")]
    command = [sys.executable, "-m", "pip", *words, "--target", str(tmp_path)]
    run_program(*command, env=world.environ())
    assert (tmp_path / "torch-2.13.0+cpu.dist-info").is_dir()


def test_bundled(world: World) -> None:
    """A bundle of the lock gives a machine without a network its build."""
    world.run("bundle", "pylock.toml", "--for", "v100-535", "--for", "h100-580", "-o", "bundle")
    assert chosen(world, "bundle/pylock.toml", "h100-580")["torch"] == "2.13.0+cu132 (cu132)"
    words = ["sync", "bundle/pylock.toml", "--offline", "--for", "v100-535", "--target", "other"]
    assert "installed torch 2.13.0+cu126" in world.run(*words).stdout


@pytest.mark.parametrize(
    ("requirement", "version"), [("torch==2.14.1+cu126", "2.14.1+cu126"), ("torch>=2.15", "2.15.0")]
)
def test_versions_that_are_asked_for(world: World, requirement: str, version: str) -> None:
    """One build is locked if its version is asked for; a newer release if that is."""
    world.run("lock", requirement, "--python-version", PYTHON, "-o", "pylock.asked.toml")
    stdout = world.run("tree", "pylock.asked.toml", "--json").stdout
    (world.folder / "pylock.asked.toml").unlink()
    assert f'"version": "{version}"' in stdout


@pytest.mark.parametrize(
    ("older", "versions", "given_up"),
    [
        ("cu126 cu132 rocm7.2", ("2.13.0", "0.28.0"), ""),
        ("cu126 cu132", ("2.14.1", "0.29.1"), "torchvision 0.29.1 for ROCm (0.28.0 has one)"),
    ],
)
def test_releases_that_go_together(
    new_world: Callable[[], World], older: str, versions: tuple[str, str], given_up: str
) -> None:
    """The newest releases for the most kinds of machines are taken that go with each other."""
    world = new_world()
    for project, version, builds, needs in (
        ("torch", "2.14.1", "cu126 cu132 rocm7.2", ()),
        ("torchvision", "0.29.1", "cu126 cu132", ("torch==2.14.1",)),
        ("torch", "2.13.0", older, ()),
        ("torchvision", "0.28.0", "cu126 cu132 rocm7.2", ("torch==2.13.0",)),
    ):
        for build in ("cpu", *builds.split()):
            world.pytorch.add(
                f"whl/{build}", wheels(project, f"{version}+{build}", LINUX, requires=needs)
            )
        world.registry.add(wheels(project, version, LINUX, requires=needs))
    words = ["lock", "torch", "torchvision", "--platform", "linux-x86_64"]
    result = world.run(*words, "--python-version", PYTHON)
    assert re.findall(r"^\+ \w+ (\S+)$", result.stdout, re.MULTILINE) == [*versions]
    assert given_up in result.stderr
    assert ("--for MACHINE" in result.stderr) is bool(given_up)
    assert chosen(world, "pylock.toml", "v100-535") == {
        "torch": f"{versions[0]}+cu126 (cu126)",
        "torchvision": f"{versions[1]}+cu126 (cu126)",
    }


def test_no_lock_of_substitutes(world: World) -> None:
    """A lock lasts: without the owner's index there is none, not one of the registry's builds."""
    before = (world.folder / "pylock.toml").read_bytes()
    host = world.net.hosts.pop("download.pytorch.org")
    try:
        words = ["lock", "torch", "torchvision", "--no-cache-dir", "--retries", "0"]
        result = world.run(*words, code=5)
        assert "torch, torchvision cannot be locked without the index of the owner" in " ".join(
            result.stderr.replace(" and ", ", ").split()
        )
        world.run("lock", "torch", "--no-bridges", "-o", "pylock.registry.toml")
    finally:
        world.net.hosts["download.pytorch.org"] = host
    assert (world.folder / "pylock.toml").read_bytes() == before
    assert "pytorch.org" not in (world.folder / "pylock.registry.toml").read_text("utf-8")


def test_device_builds(new_world: Callable[[], World]) -> None:
    """AMD's builds need a distribution for each GPU, which a machine gets for its own only.

    Of one release there are builds for several versions of ROCm, of which the newest is locked.
    """
    world = new_world()
    device = "device-gfx942"
    for project, version, needs in (
        ("torch", "2.14.0", ()),
        ("torchvision", "0.29.0", ("torch==2.14.0",)),
    ):
        for build in ("cpu", "cu132"):
            found = wheels(project, f"{version}+{build}", LINUX, requires=needs)
            world.pytorch.add(f"whl/{build}", found)
        for local in ("rocm7.9.0", "rocm7.13.0", "rocm7.14.0"):
            own = [f"{text}+{local}" for text in needs]
            own.append(f"amd-{project}-{device}=={version}+{local} ; extra == '{device}'")
            requires, extras = tuple(own), (device,)
            made = wheels(project, f"{version}+{local}", LINUX, requires=requires, extras=extras)
            part = Wheel(f"amd-{project}-{device}", f"{version}+{local}", f"py3-none-{LINUX}")
            world.amd.add("rocm/whl-multi-arch", [*made, part])
        world.registry.add(wheels(project, version, LINUX, requires=needs))
    world.amd.add("rocm/whl-multi-arch", [Wheel("rocm", "7.14.0")])
    words = ["--platform", "linux-x86_64", "--python-version", PYTHON]
    world.run("lock", "torch", "torchvision", *words)
    assert chosen(world, "pylock.toml", "mi300x-rocm7") == {
        "rocm": "7.14.0 (null)",
        "torch": "2.14.0+rocm7.14.0 (gfx942)",
        "torchvision": "0.29.0+rocm7.14.0 (gfx942)",
        "amd-torch-device-gfx942": "2.14.0+rocm7.14.0 (null)",
        "amd-torchvision-device-gfx942": "0.29.0+rocm7.14.0 (null)",
    }
    assert chosen(world, "pylock.toml", "h100-580") == {
        "torch": "2.14.0+cu132 (cu132)",
        "torchvision": "0.29.0+cu132 (cu132)",
    }
