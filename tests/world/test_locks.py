"""``wheelfit lock`` of what families stand for, for machines of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import Runner
from world.internet import World

pytestmark = pytest.mark.integration

PLUGINS = {"jax_cuda12_plugin", "jax_cuda13_plugin"}


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("cpu-linux", set()),
        ("h100-580", {"jax_cuda13_plugin"}),
        ("cuda-12.8-sm90", {"jax_cuda12_plugin"}),
        ("rtx5090-windows", set()),
        ("mac-m3", set()),
    ],
)
def test_extras_of_a_build_are_locked(
    at_home: World, run: Runner, tmp_path: Path, machine: str, expected: set[str]
) -> None:
    """F-120: what a build needs beyond its metadata is needed by that build only."""
    del at_home
    lock = tmp_path / "pylock.toml"
    run("lock", "jax", "-o", lock)
    result = run(
        "sync", lock, "--for", machine, "--target", tmp_path / "target", "--json", "--dry-run"
    )
    names = {one["name"].replace("-", "_") for one in result.object["install"]}
    assert names & PLUGINS == expected


def test_newest_of_those_with_the_most_kinds(at_home: World, run: Runner, tmp_path: Path) -> None:
    """What goes with a release that is asked for has builds for the same kinds of machines."""
    del at_home
    lock = tmp_path / "pylock.toml"
    run("lock", "torch==2.14.1", "torchvision", "-o", lock, "--platform", "linux-x86_64")
    target = ("--target", tmp_path / "target", "--json", "--dry-run")
    result = run("sync", lock, "--for", "v100-535", *target)
    versions = {one["name"]: one["version"] for one in result.object["install"]}
    assert (versions["torch"], versions["torchvision"]) == ("2.14.1+cu126", "0.29.1+cu126")
